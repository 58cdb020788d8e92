// Polls the part of a live page, pauses while the page is hidden, and counts the seconds since the last upload.
(function () {
  "use strict";
  const part = () => document.getElementById("live");
  const isPart = (event) => event.detail.elt && event.detail.elt.id === "live";
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (isPart(event) && document.hidden) event.preventDefault();
  });
  document.addEventListener("htmx:configRequest", (event) => {
    if (isPart(event)) event.detail.headers["If-None-Match"] = part().dataset.live;
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (!isPart(event)) return;
    const response = event.detail.xhr;
    if (response.status === 304) event.detail.shouldSwap = false;
    else if (response.status === 200 && !response.responseText.includes("data-live=")) location.reload(); // signed out
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && part()) htmx.trigger(part(), "refresh");
  });
  function text(seconds) {
    if (seconds < 120) return `${seconds} s`;
    const minutes = Math.floor(seconds / 60);
    return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }
  let shown = null, since = 0;
  setInterval(() => {
    const age = document.querySelector("#live [data-age]");
    if (!age) return;
    if (age !== shown) { shown = age; since = performance.now(); }
    age.textContent = text(Number(age.dataset.age) + Math.floor((performance.now() - since) / 1000));
  }, 1000);
})();
