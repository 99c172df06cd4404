// Apply the chosen theme before the first paint. Without a choice the page follows the system.
"use strict";
(() => {
  const chosen = localStorage.getItem("lukasa.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
