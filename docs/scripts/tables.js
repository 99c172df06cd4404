// Wide tables scroll sideways: the keyboard must reach them too. The theme wraps them after the page has loaded.
const markTables = () => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    table.tabIndex = 0;
    table.setAttribute("role", "region");
    table.setAttribute("aria-label", "Table");
  }
};
new MutationObserver(markTables).observe(document.body, { childList: true, subtree: true });
markTables();
