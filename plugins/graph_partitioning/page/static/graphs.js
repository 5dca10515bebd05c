// Sorting, search, refresh and actions of the pages of graphs; the pages can be read without it. local_times.js is before it.
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

// Shows the page as it is now: the part that changes by itself, or the whole page after an action.
async function refresh(whole = false, address = location.href) {
  const live = get("live");
  const busy = document.activeElement?.matches("input, select, button, summary, textarea");
  // what somebody types or chooses is not replaced
  if (!whole && (!live || document.hidden || get("ask").open || (busy && live.contains(document.activeElement)))) return;
  const waits = live?.querySelector("[data-pending]");
  const url = new URL(address, location.href);
  url.searchParams.set("wait", waits && !whole ? "1" : "2"); // what was missing, or the newest state
  try {
    const answer = await fetch(url, { headers: { Accept: "text/html" } });
    if (!answer.ok || (answer.redirected && !whole)) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    if (!fresh) return;
    if (whole || (waits && !busy && !get("again")?.open)) {
      if (whole) history.replaceState(null, "", address);
      document.title = page.title;
      shown = fresh.innerHTML;
      const words = get("search")?.value;
      document.body.replaceWith(document.adoptNode(page.body));
      if (words && get("search")) get("search").value = words;
    } else {
      if (fresh.innerHTML === shown) return;
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
    }
    localize();
    sort();
    search();
  } catch { /* the server restarts: the next attempt is in a few seconds */ }
}
document.addEventListener("DOMContentLoaded", () => {
  shown = get("live")?.innerHTML;
  localize();
  if (location.hash === "#again") get("again")?.setAttribute("open", ""); // a link leads to the closed form
  if (get("live")?.querySelector("[data-pending]")) refresh();
});
let ticks = 0;
setInterval(() => {
  ticks += 1;
  if (get("live")?.querySelector("progress, [data-pending]") || ticks % IDLE === 0) refresh();
}, SECONDS * 1000);

// ---- Actions: calls of Airflow's REST API as the user. Bodies are JSON, which no form of another site can send.

async function call(method, url, body) {
  const options = { method, credentials: "same-origin", headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(url, options);
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

// Asks for a confirmation, by the button or by typing a text, and returns whether it was given.
function ask(question, label, typed = "", comment = false) {
  if (!question) return Promise.resolve(true);
  const dialog = get("ask");
  get("question").textContent = local(question);
  get("yes").textContent = label;
  const input = dialog.querySelector("#typing input");
  get("commenting").hidden = !comment;
  dialog.querySelector("textarea").value = "";
  get("typing").hidden = !typed;
  dialog.querySelector("#typing b").textContent = typed;
  input.value = "";
  const check = () => { get("yes").disabled = typed !== "" && input.value !== typed; };
  input.oninput = check;
  check();
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

const runPath = (run) =>
  `${API}/dags/${encodeURIComponent(run.dag_id)}/dagRuns/${encodeURIComponent(run.dag_run_id)}`;

// Waits for the end of a run of `manage_graph`, and returns what it has removed, or throws why it failed.
async function follow(run, label) {
  const xcom = (key) => call("GET", `${runPath(run)}/taskInstances/manage/xcomEntries/${key}`).then((found) => found.value);
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 2000));
    const { state } = await call("GET", runPath(run));
    if (state === "failed") throw new Error(`failed. ${await xcom("graph_failure").catch(() => "Its log has the reason.")}`);
    if (state === "success") {
      const found = await xcom("return_value").catch(() => ({}));
      return (typeof found === "string" ? JSON.parse(found) : found).removed;
    }
    say(`${label}: ${state} …`);
  }
}

async function act(button) {
  const { method, path, body, ask: question, follow: followed, label, next, typed, param, list, comment } = JSON.parse(button.dataset.act);
  const form = button.closest("form");
  if (form && !form.reportValidity()) return;
  for (const one of form?.querySelectorAll("input") ?? []) body.conf[one.name] = Number(one.value);
  let asked = question;
  button.disabled = true;
  try {
    if (list) {
      say(`${label}: looking for them …`);
      const found = await call("GET", `${list}?${new URLSearchParams(new FormData(form))}`);
      if (!found.runs.length) return say(`${label}: there are none; all ${found.kept} runs stay.`);
      get("said").hidden = true;
      asked = `${question} They have ${found.size}.\n${found.runs.map((run) => `• ${run}`).join("\n")}`;
    }
    if (!(await ask(asked, label, typed, comment))) return;
    if (comment) body.params_input.comment = document.querySelector("#commenting textarea").value;
    if (param) body.conf[param] = typed;
    const found = await call(method, API + path, body);
    let text = found.dag_run_id ? `The run ${found.dag_run_id} of ${found.dag_id} has been triggered.` : `${label}: done.`;
    if (followed) {
      const removed = (await follow(found, label)) ?? [];
      const names = removed.map((uri) => uri.split("/").at(-1)).join(", ");
      text = `${label}: done.${names ? ` Removed ${names}.` : list ? " Nothing was removed." : ""}`;
    }
    say(text);
    await refresh(true, next);
    say(text);
  } catch (error) {
    say(`${label}: ${error.message}`, true);
  } finally {
    button.disabled = false;
  }
}

// Says how many bytes all runs of a graph have, and how many the fields of "Remove older runs" would free.
async function measure(button) {
  const form = get("retain");
  const limits = form ? new URLSearchParams(new FormData(form)) : "keep=3&grace_days=7";
  say("Measuring the storage …");
  try {
    const found = await call("GET", `${button.dataset.list}?${limits}`);
    const { keep, grace_days: days } = Object.fromEntries(new URLSearchParams(limits));
    say(`All ${found.kept + found.runs.length} runs have ${found.total}. Retention that keeps the newest ${keep} runs and those`
      + ` of the last ${days} days would free ${found.size}, in ${found.runs.length} runs.`);
  } catch (error) {
    say(`The storage was not measured: ${error.message}`, true);
  }
}

async function copy(button) {
  const lines = button.nextElementSibling;
  try {
    await navigator.clipboard.writeText(lines.textContent);
  } catch { // without TLS, a browser has no clipboard for pages
    getSelection().selectAllChildren(lines);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
  button.blur();
}

// ---- The form with the options of the last run

function entered(one) {
  if (one.dataset.kind === "boolean") return one.checked;
  const text = one.value;
  if (text === "" && "nullable" in one.dataset) return null;
  if (one.dataset.kind === "json") return JSON.parse(text);
  return ["integer", "number"].includes(one.dataset.kind) && text !== "" ? Number(text) : text;
}

const isChanged = (one) => one.type === "checkbox" ? one.checked !== one.defaultChecked
  : one.tagName === "SELECT" ? ![...one.options].some((each) => each.defaultSelected && each.selected)
  : one.value !== one.defaultValue;

const before = (one) => one.type === "checkbox" ? String(one.defaultChecked)
  : one.tagName === "SELECT" ? [...one.options].find((each) => each.defaultSelected)?.text : one.defaultValue;

// Shows errors beside their fields, opens their sections, and returns whether there are any.
function showErrors(form, errors) {
  for (const place of form.querySelectorAll("[role=alert]")) place.textContent = "";
  const others = [];
  let first = null;
  for (const [name, text] of Object.entries(errors)) {
    const one = form.elements.namedItem(name);
    if (!name || !one) { others.push(text); continue; }
    get(`error-${name}`).textContent = text;
    one.closest("details").open = true;
    first ??= one;
  }
  first?.focus();
  if (first || others.length) say(`The run was not triggered. ${others.join(" ") || "See the marked fields."}`, true);
  return Boolean(first || others.length);
}

async function trigger(form) {
  const conf = JSON.parse(form.dataset.conf);
  const changed = [...form.elements].filter((one) => one.name && isChanged(one));
  const wrong = {};
  for (const one of changed)
    try {
      if (one.validity.badInput) throw new Error(one.validationMessage);
      conf[one.name] = entered(one);
    } catch (error) {
      wrong[one.name] = one.dataset.kind === "json" ? `This is not JSON: ${error.message}` : error.message;
    }
  try {
    if (showErrors(form, wrong) || showErrors(form, await call("POST", form.dataset.check, conf))) return;
    const lines = changed.map((one) => `${one.labels[0].textContent}: ${before(one) || "empty"} → ${one.type === "checkbox" ? one.checked : one.value || "empty"}`);
    const question = lines.length ? ["Trigger a run with other options than the last one?", ...lines].join("\n")
      : "Trigger a run with the same options as the last one?";
    if (!(await ask(question, "Trigger"))) return;
    const found = await call("POST", API + form.dataset.path, { logical_date: null, conf });
    await refresh(true);
    say(`The run ${found.dag_run_id} of ${found.dag_id} has been triggered.`);
  } catch (error) {
    say(`The run was not triggered: ${error.message}`, true);
  }
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
  const target = event.target.closest?.("#graphs th button, button[data-act], #storage, .copy, a[target=_top]");
  if (!target) return;
  if (target.dataset.act) act(target);
  else if (target.id === "storage") measure(target);
  else if (target.matches(".copy")) copy(target);
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
