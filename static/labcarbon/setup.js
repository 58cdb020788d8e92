// Offers the browser's own time zone where none was typed.
(function () {
  "use strict";
  document.querySelectorAll("input[data-time-zone]").forEach((field) => {
    if (!field.value) field.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  });
})();
