"""Those who keep jobs."""
