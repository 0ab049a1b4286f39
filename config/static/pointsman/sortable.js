"use strict";
// Inline tables whose rows have an order: drag a row by its handle (mouse, pen, finger) or use its arrows, and the
// numbers are written anew. Without this script the numbers are typed.
(function () {
  const words = document.getElementById("sortable-words");
  if (!words) { return; }
  const EDGE = 64; // pixels from the window's edge at which a drag scrolls

  function rows(body) {
    return Array.from(body.querySelectorAll(":scope > tr.form-row")).filter(function (row) {
      return !row.classList.contains("empty-form") && row.querySelector("input[name$='-position']");
    });
  }
  function renumber(body) {
    let changed = false;
    rows(body).forEach(function (row, place) {
      const field = row.querySelector("input[name$='-position']");
      changed = changed || field.value !== String(place + 1);
      field.value = String(place + 1);
    });
    const note = body.closest(".inline-group").querySelector(".order-note");
    if (changed && note) { note.hidden = false; }
  }
  function say(row) {
    const all = rows(row.parentNode);
    const said = words.dataset.moved.replace("{place}", String(all.indexOf(row) + 1)).replace("{all}", String(all.length));
    document.getElementById("sortable-said").textContent = said;
  }
  function step(row, by) {
    const all = rows(row.parentNode);
    const other = all[all.indexOf(row) + by];
    if (!other) { return; }
    // The neighbour moves, so the button pressed keeps the focus.
    row.parentNode.insertBefore(other, by < 0 ? row.nextSibling : row);
    renumber(row.parentNode);
    say(row);
  }
  function drag(row, event) {
    const body = row.parentNode;
    event.preventDefault();
    row.classList.add("dragged");
    function follow(now) {
      if (now.pointerId !== event.pointerId) { return; }
      now.preventDefault();
      if (now.clientY < EDGE) { window.scrollBy(0, -12); }
      if (now.clientY > window.innerHeight - EDGE) { window.scrollBy(0, 12); }
      for (;;) {
        const all = rows(body);
        const before = all[all.indexOf(row) - 1];
        const after = all[all.indexOf(row) + 1];
        if (before && now.clientY < middle(before)) {
          body.insertBefore(before, row.nextSibling);
        } else if (after && now.clientY > middle(after)) {
          body.insertBefore(after, row);
        } else {
          return;
        }
      }
    }
    function end(now) {
      if (now.pointerId !== event.pointerId) { return; }
      ["pointermove", "pointerup", "pointercancel"].forEach(function (name) {
        document.removeEventListener(name, name === "pointermove" ? follow : end);
      });
      row.classList.remove("dragged");
      renumber(body);
      say(row);
    }
    document.addEventListener("pointermove", follow, { passive: false });
    document.addEventListener("pointerup", end);
    document.addEventListener("pointercancel", end);
  }
  function middle(row) {
    const box = row.getBoundingClientRect();
    return box.top + box.height / 2;
  }
  function button(row, by) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "move";
    made.textContent = by < 0 ? "↑" : "↓";
    made.title = by < 0 ? words.dataset.up : words.dataset.down;
    made.setAttribute("aria-label", made.title);
    made.addEventListener("click", function () { step(row, by); });
    return made;
  }
  function prepare(row) {
    const cell = row.querySelector(".field-position");
    if (!cell || cell.querySelector(".grip")) { return; }
    const grip = document.createElement("span");
    grip.className = "grip";
    grip.title = words.dataset.drag;
    grip.setAttribute("aria-hidden", "true");
    grip.textContent = "⠿";
    grip.addEventListener("pointerdown", function (event) { if (event.button === 0) { drag(row, event); } });
    cell.insertBefore(grip, cell.firstChild);
    cell.appendChild(button(row, -1));
    cell.appendChild(button(row, 1));
  }
  document.querySelectorAll(".inline-group .tabular tbody").forEach(function (body) {
    const found = rows(body);
    found.forEach(prepare);
    if (!found.length && !body.querySelector("input[name$='-position']")) { return; }
    const note = document.createElement("p");
    note.className = "order-note";
    note.hidden = true;
    note.textContent = words.dataset.unsaved;
    body.closest(".inline-group").querySelector(".tabular").appendChild(note);
  });
  document.addEventListener("formset:added", function (event) { prepare(event.target); });
}());
