// Sorting, search, refresh and actions of the pages of graphs; the pages can be read without it.
"use strict";

const SECONDS = 5; // between two refreshes while something runs
const IDLE = 3; // times as long while nothing does
const API = document.currentScript.dataset.api;
let sorted = null; // column and direction
let shown = null; // what the server sent last of the part that is refreshed

document.documentElement.classList.add("js");
const theme = (() => {
  try { return localStorage.getItem("theme"); } catch { return null; }
})();
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme; // as Airflow shows itself

const get = (id) => document.getElementById(id);
const table = () => get("graphs");

// ---- The table of all graphs

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
  const words = get("search")?.value.toLowerCase() ?? "";
  const state = get("state")?.value ?? "";
  for (const row of table()?.tBodies[0].rows ?? [])
    row.hidden = !row.dataset.search.toLowerCase().includes(words) || (state !== "" && row.dataset.state !== state);
}

function sortBy(cell) {
  const column = cell.cellIndex;
  sorted = { column, ascending: sorted?.column === column ? !sorted.ascending : true };
  sort();
}

// ---- Refresh

async function refresh() {
  const live = get("live");
  // what somebody types or chooses is not replaced
  if (!live || document.hidden || get("ask").open) return;
  if (live.contains(document.activeElement) && document.activeElement.matches("input, select, button")) return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    if (!fresh || fresh.innerHTML === shown) return;
    shown = fresh.innerHTML;
    const words = get("search")?.value;
    const state = get("state")?.value;
    const chosen = [...document.querySelectorAll("input[type=radio]:checked")].map((one) => [one.name, one.value]);
    const scrolled = [...live.querySelectorAll(".wide")].map((one) => one.scrollLeft);
    const focused = live.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    live.replaceWith(document.adoptNode(fresh));
    if (words !== undefined && get("search")) get("search").value = words;
    if (state !== undefined && get("state")) get("state").value = state;
    for (const [name, run] of chosen)
      for (const one of document.getElementsByName(name)) one.checked = one.value === run;
    [...fresh.querySelectorAll(".wide")].forEach((one, number) => { one.scrollLeft = scrolled[number] ?? 0; });
    [...fresh.querySelectorAll("a[href]")].find((one) => one.getAttribute("href") === focused)?.focus();
    sort();
    search();
  } catch { /* the server restarts: the next attempt is in a few seconds */ }
}
document.addEventListener("DOMContentLoaded", () => { shown = get("live")?.innerHTML; });
let ticks = 0;
setInterval(() => {
  ticks += 1;
  if (get("live")?.querySelector("progress") || ticks % IDLE === 0) refresh();
}, SECONDS * 1000);

// ---- Actions: calls of Airflow's REST API as the user. Bodies are JSON, which no form of another site can send.

async function call(method, path, body) {
  const options = { method, credentials: "same-origin", headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(API + path, options);
  const found = await answer.json().catch(() => ({}));
  if (answer.ok) return found;
  const detail = typeof found.detail === "string" ? found.detail : JSON.stringify(found.detail ?? answer.statusText);
  throw new Error(answer.status === 403 ? `You may not do this: ${detail}` : detail);
}

function say(text, bad = false) {
  const said = get("said");
  said.textContent = text;
  said.className = bad ? "bad" : "";
  said.hidden = false;
}

function ask(question, label) {
  if (!question) return Promise.resolve(true);
  const dialog = get("ask");
  get("question").textContent = question;
  get("yes").textContent = label;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

const runPath = (run) =>
  `/dags/${encodeURIComponent(run.dag_id)}/dagRuns/${encodeURIComponent(run.dag_run_id)}`;

async function follow(run, label) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 2000));
    const { state } = await call("GET", runPath(run));
    if (state === "success") return say(`${label}: done.`);
    if (state === "failed") {
      const path = `${runPath(run)}/taskInstances/manage/xcomEntries/graph_failure`;
      const why = await call("GET", path).then((found) => found.value, () => "its log has the reason.");
      return say(`${label}: failed. ${why}`, true);
    }
    say(`${label}: ${state} …`);
  }
}

async function act(button) {
  const { method, path, body, ask: question, follow: followed, label } = JSON.parse(button.dataset.act);
  const form = button.closest("form");
  if (form && !form.reportValidity()) return;
  for (const one of form?.querySelectorAll("input") ?? []) body.conf[one.name] = Number(one.value);
  if (!(await ask(question, label))) return;
  button.disabled = true;
  try {
    const found = await call(method, path, body);
    if (followed) await follow(found, label);
    else say(found.dag_run_id ? `The run ${found.dag_run_id} of ${found.dag_id} has been triggered.` : `${label}: done.`);
  } catch (error) {
    say(`${label}: ${error.message}`, true);
  }
  button.disabled = false;
  document.activeElement?.blur();
  refresh();
}

// ---- The form with the options of the last run

function entered(one) {
  if (one.dataset.kind === "boolean") return one.checked;
  const text = one.value;
  if (text === "" && "nullable" in one.dataset) return null;
  if (one.dataset.kind === "json") return JSON.parse(text);
  return ["integer", "number"].includes(one.dataset.kind) ? Number(text) : text;
}

const isChanged = (one) => one.type === "checkbox" ? one.checked !== one.defaultChecked
  : one.tagName === "SELECT" ? ![...one.options].some((each) => each.defaultSelected && each.selected)
  : one.value !== one.defaultValue;

async function trigger(form) {
  const conf = JSON.parse(form.dataset.conf);
  const changed = [...form.elements].filter((one) => one.name && isChanged(one));
  try {
    for (const one of changed) conf[one.name] = entered(one);
  } catch (error) {
    return say(`This is not JSON: ${error.message}`, true);
  }
  const names = changed.map((one) => one.name).join(", ");
  if (!(await ask(names ? `Trigger a run with other values of ${names}?` : "Trigger a run with the same options?", "Trigger"))) return;
  try {
    const found = await call("POST", form.dataset.path, { logical_date: null, conf });
    say(`The run ${found.dag_run_id} of ${found.dag_id} has been triggered.`);
  } catch (error) {
    say(`The run was not triggered: ${error.message}`, true);
  }
  document.activeElement?.blur();
  refresh();
}

// ---- Links out of the frame in which Airflow shows the page: the frame may not navigate the window around it

function leave(event, link) {
  if (window.parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
  try {
    const outer = window.parent.document.createElement("a");
    outer.href = link.href;
    outer.click();
    event.preventDefault();
  } catch { /* a frame of another site: the browser decides */ }
}

document.addEventListener("click", (event) => {
  const target = event.target.closest?.("#graphs th button, button[data-act], a[target=_top]");
  if (!target) return;
  if (target.dataset.act) act(target);
  else if (target.tagName === "A") leave(event, target);
  else sortBy(target.parentElement);
});
document.addEventListener("submit", (event) => {
  if (!event.target.matches("#trigger, #retain")) return;
  event.preventDefault();
  if (event.target.id === "trigger") trigger(event.target);
});
document.addEventListener("input", (event) => {
  if (["search", "state"].includes(event.target.id)) search();
  event.target.closest?.(".field")?.classList.toggle("changed", isChanged(event.target));
});
