// Fills in the time zone of the browser if the field is empty.
(function () {
  "use strict";
  document.querySelectorAll("input[data-time-zone]").forEach((field) => {
    if (!field.value) field.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  });
})();
