"use strict";
// Inline tables whose rows have a position: drag a row (or use its arrows) and the positions are written anew.
(function () {
  function rows(body) {
    return Array.from(body.querySelectorAll("tr.form-row")).filter(function (row) {
      return !row.classList.contains("empty-form") && row.querySelector("input[name$='-position']");
    });
  }
  function renumber(body) {
    rows(body).forEach(function (row, place) {
      row.querySelector("input[name$='-position']").value = place;
    });
  }
  function move(row, step) {
    const body = row.parentNode;
    const all = rows(body);
    const other = all[all.indexOf(row) + step];
    if (!other) { return; }
    body.insertBefore(row, step < 0 ? other : other.nextSibling);
    renumber(body);
  }
  function button(words, row, step) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "button small move";
    made.textContent = words;
    made.setAttribute("aria-label", step < 0 ? "up" : "down");
    made.addEventListener("click", function () { move(row, step); made.focus(); });
    return made;
  }
  let dragged = null;
  function prepare(row) {
    const cell = row.querySelector(".field-position");
    cell.appendChild(button("↑", row, -1));
    cell.appendChild(button("↓", row, 1));
    row.draggable = true;
    row.addEventListener("dragstart", function (event) { dragged = row; event.dataTransfer.effectAllowed = "move"; });
    row.addEventListener("dragover", function (event) {
      if (!dragged || dragged.parentNode !== row.parentNode || dragged === row) { return; }
      event.preventDefault();
      const below = event.clientY > row.getBoundingClientRect().top + row.offsetHeight / 2;
      row.parentNode.insertBefore(dragged, below ? row.nextSibling : row);
    });
    row.addEventListener("dragend", function () { renumber(row.parentNode); dragged = null; });
  }
  document.querySelectorAll(".inline-group .tabular tbody").forEach(function (body) { rows(body).forEach(prepare); });
}());
