"use strict";
// Looks at pasted keys as they are typed; the server judges again.
(function () {
  const field = document.querySelector("[data-paste]");
  const report = document.getElementById("paste-report");
  if (!field || !report) { return; }
  const words = report.dataset;
  function problem(text, seen) {
    if (/\s/.test(text)) { return words.space; }
    if (/[^\x21-\x7e]/.test(text)) { return words.ascii; }
    return seen.has(text) ? words.twice : "";
  }
  field.addEventListener("input", function () {
    const seen = new Set();
    const found = [];
    let good = 0;
    field.value.split("\n").forEach(function (raw, place) {
      const text = raw.trim();
      if (!text) { return; }
      const bad = problem(text, seen);
      seen.add(text);
      if (bad) { found.push(words.bad.replace("%s", String(place + 1)) + bad); } else { good += 1; }
    });
    report.textContent = [good + " " + (good === 1 ? words.one : words.good)].concat(found.slice(0, 5)).join(" · ");
  });
}());
