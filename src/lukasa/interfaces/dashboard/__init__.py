"""The dashboard: pages in the browser that show what is remembered and let a person correct it."""
