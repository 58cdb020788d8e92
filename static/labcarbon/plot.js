// Draws the charts that the server built. A drag across a chart selects a period; a click on a series opens its page.
(function () {
  "use strict";
  const config = { displaylogo: false, displayModeBar: false, showSendToCloud: false, plotlyServerURL: "", responsive: true };
  function download(chart, format) {
    if (!chart.data) return;
    Plotly.downloadImage(chart, { format: format, filename: chart.dataset.name || "labcarbon", width: 1000, height: 480 });
  }
  function move(chart, range) {
    const edges = chart.labcarbon.edges;
    if (!edges || !range || range.length !== 2) return;
    const last = edges.length - 1;
    const at = (value) => Math.min(last, Math.max(0, Math.round(value + 0.5)));
    const from = at(range[0]), to = Math.max(from + 1, at(range[1]));
    const query = new URLSearchParams(location.search);
    query.delete("period");
    query.set("from", edges[from]);
    query.set("to", edges[Math.min(last, to)]);
    location.search = query.toString();
  }
  // On a narrow screen the legend replaces the labels beside the bars, and every second tick is left out.
  function fit(layout) {
    layout.annotations = (layout.annotations || []).filter((note) => note.name === "panel");
    layout.margin = Object.assign({}, layout.margin, { r: 8 });
    const even = (list) => list && list.filter((_, i) => i % 2 === 0);
    layout.xaxis.tickvals = even(layout.xaxis.tickvals);
    layout.xaxis.ticktext = even(layout.xaxis.ticktext);
  }
  function draw(chart) {
    const source = document.getElementById(chart.dataset.chart);
    if (!source || !window.Plotly) return;
    const figure = JSON.parse(source.textContent);
    if (!figure.data.length) return;
    const first = !chart.labcarbon;
    chart.labcarbon = figure.layout.meta || {};
    const narrow = chart.clientWidth < 480;
    if (narrow) fit(figure.layout);
    if (first) chart.replaceChildren();
    Plotly.react(chart, figure.data, figure.layout, config);
    if (!first) return;
    chart.on("plotly_click", (event) => {
      const address = event.points[0] && event.points[0].data.meta;
      if (typeof address === "string" && address.startsWith("/")) location.assign(address);
    });
    chart.on("plotly_relayout", (change) => {
      if ("xaxis.range[0]" in change) move(chart, [change["xaxis.range[0]"], change["xaxis.range[1]"]]);
    });
  }
  const drawAll = () => document.querySelectorAll("[data-chart]").forEach(draw);
  document.addEventListener("DOMContentLoaded", drawAll);
  document.addEventListener("htmx:oobAfterSwap", drawAll);
  // On paper a chart is as wide as a card on A4. One that is wider would shrink the whole page.
  function resize(size) {
    document.querySelectorAll(".js-plotly-plot").forEach((chart) => Plotly.relayout(chart, size));
  }
  window.addEventListener("beforeprint", () => resize({ width: 680 }));
  window.addEventListener("afterprint", () => resize({ width: null, autosize: true }));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-download]");
    if (button) download(document.querySelector(`[data-chart="${button.dataset.of}"]`), button.dataset.download);
  });
})();
