// Sorting, search and refresh of the page of all graphs; the page is complete without it.
"use strict";

const SECONDS = 5;
let sorted = null; // column and direction

const theme = (() => {
  try { return localStorage.getItem("theme"); } catch { return null; }
})();
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme; // as Airflow shows itself

const table = () => document.getElementById("graphs");

function value(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent.trim();
  return text !== "" && !isNaN(text) ? Number(text) : text;
}

function sort() {
  if (!sorted || !table()) return;
  const { column, ascending } = sorted;
  const body = table().tBodies[0];
  const rows = [...body.rows].sort((a, b) => {
    const [x, y] = [value(a, column), value(b, column)];
    if (x === "" || y === "") return (x === "") - (y === ""); // rows without a value come last
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
    return ascending ? order : -order;
  });
  body.append(...rows);
  [...table().tHead.rows[0].cells].forEach((cell, number) => {
    if (number === column) cell.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  });
}

function search() {
  const words = document.getElementById("search")?.value.toLowerCase() ?? "";
  for (const row of table()?.tBodies[0].rows ?? [])
    row.hidden = !row.dataset.search.toLowerCase().includes(words);
}

document.addEventListener("click", (event) => {
  const cell = event.target.closest?.("#graphs th button")?.parentElement;
  if (!cell) return;
  const column = cell.cellIndex;
  sorted = { column, ascending: sorted?.column === column ? !sorted.ascending : true };
  sort();
});
document.addEventListener("input", (event) => { if (event.target.id === "search") search(); });

async function refresh() {
  const live = document.getElementById("live");
  // what somebody types or chooses is not replaced
  if (document.hidden || live.contains(document.activeElement) && document.activeElement.matches("input, button")) return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    const words = document.getElementById("search")?.value;
    const chosen = [...document.querySelectorAll("input[type=radio]:checked")].map((one) => [one.name, one.value]);
    if (!fresh) return;
    live.replaceWith(document.adoptNode(fresh));
    if (words !== undefined && document.getElementById("search")) document.getElementById("search").value = words;
    for (const [name, run] of chosen)
      for (const one of document.getElementsByName(name)) one.checked = one.value === run;
    sort();
    search();
  } catch { /* the server restarts: the next attempt is in a few seconds */ }
}
setInterval(refresh, SECONDS * 1000);
