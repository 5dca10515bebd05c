// Shows times in the zone that the user has chosen in Airflow, or else in that of the browser.
"use strict";

const inZone = (() => {
  let timeZone;
  try { timeZone = JSON.parse(localStorage.getItem("timezone")) ?? undefined; } catch { /* none is chosen */ }
  const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" };
  const options = { ...parts, hourCycle: "h23", timeZoneName: "short" };
  try { return new Intl.DateTimeFormat("en-GB", { ...options, timeZone }); } catch { return new Intl.DateTimeFormat("en-GB", options); }
})();

// Returns a text with its times, such as 2026-05-01 12:30 UTC, in the zone.
function local(text) {
  return text.replace(/\b(\d{4}-\d\d-\d\d) (\d\d:\d\d) UTC\b/g, (_, day, time) => {
    const part = Object.fromEntries(inZone.formatToParts(new Date(`${day}T${time}Z`)).map((one) => [one.type, one.value]));
    return `${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute} ${part.timeZoneName}`;
  });
}

function localize() {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode());) if (text.data.includes(" UTC")) text.data = local(text.data);
}
