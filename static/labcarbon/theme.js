// Applies the selected theme before the page is painted, and switches it on click.
(function () {
  "use strict";
  const root = document.documentElement;
  const order = ["auto", "light", "dark"];
  function stored() {
    try { return localStorage.getItem("labcarbon-theme") || "auto"; } catch (error) { return "auto"; }
  }
  function apply(theme) {
    if (theme === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", theme);
    document.querySelectorAll("[data-theme-name]").forEach((element) => { element.textContent = theme; });
  }
  apply(stored());
  document.addEventListener("DOMContentLoaded", () => apply(stored()));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-toggle]")) return;
    const next = order[(order.indexOf(stored()) + 1) % order.length];
    try { localStorage.setItem("labcarbon-theme", next); } catch (error) { /* private window: the theme is not stored */ }
    apply(next);
  });
})();
