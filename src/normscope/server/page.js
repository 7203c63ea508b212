"use strict";

const find = (id) => document.getElementById(id);
const several = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
const number = (value) => Number(value.toPrecision(4)).toString().replace("-", "−");

// An element with text or children; text is never taken for markup.
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// The server.

let server = null; // what /models says

class Refused extends Error {
  constructor(response, message) {
    super(message);
    this.status = response.status;
    this.after = Number(response.headers.get("Retry-After")) || 2;
  }
}

async function ask(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const response = await fetch(path, { ...options, headers: token ? { Authorization: `Bearer ${token}` } : {} });
  if (response.ok) return response.json();
  const answer = await response.json().catch(() => ({}));
  throw new Refused(response, answer.error ?? `the server answered ${response.status}`);
}

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

function setState(kind, text) {
  find("state").className = `state ${kind}`;
  find("state").textContent = text;
}

async function connect() {
  for (;;) {
    try {
      server = await ask("/models");
      break;
    } catch (problem) {
      if (problem.status === 401) return askForToken();
      setState("", problem.status === 503 ? "Loading the model …" : "The server does not answer");
      await pause(problem.after ?? 2);
    }
  }
  find("access").hidden = true;
  find("work").hidden = false;
  setState("ready", "Ready");
  showModels();
  await Promise.all([showHistory(), showDrift()]);
}

function askForToken() {
  setState("", "Locked");
  find("work").hidden = true;
  find("access").hidden = false;
  find("token").focus();
}

find("access").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", find("token").value);
  find("token").value = "";
  connect();
});

// The model.

const chosen = () => server.models.find((model) => model.name === find("models").value) ?? server.models[0];

function showModels() {
  find("models").replaceChildren(...server.models.map((model) => make("option", { value: model.name }, model.name)));
  find("choice").hidden = server.models.length < 2;
  const { limits } = server;
  find("allowed").textContent =
    `PNG, JPEG, TIFF, WebP, BMP, GIF, PPM · up to ${limits.body / 1e6} MB and ${limits.pixels / 1e6} megapixels each`;
  showModel();
}

function showModel() {
  const model = chosen();
  const words = Object.entries({ Name: model.name, ...model.words });
  if (model.promise) words.push(["Threshold", `${model.promise}.`]);
  find("words").replaceChildren(...words.flatMap(([term, text]) => [make("dt", {}, term), make("dd", {}, text)]));
  find("card").textContent = JSON.stringify(model.card, null, 2);
  find("model").hidden = false;
  for (const id of ["heat-label", "scale"]) find(id).hidden = !model.heatmaps;
  find("no-heat").hidden = model.heatmaps;
  find("no-heat").textContent = `The method ${model.card.method} has no heat maps on a scale that normal images fix.`;
  find("show-label").hidden = model.threshold === null;
  summarise();
}

find("models").addEventListener("change", () => {
  clear();
  showModel();
  showDrift();
});

async function showDrift() {
  const { name } = chosen();
  const states = await ask("/drift").catch(() => []);
  const message = states.find((state) => state.model === name)?.message;
  find("moved").hidden = !message;
  if (message) find("moved").textContent = `${message[0].toUpperCase()}${message.slice(1)}.`;
}

// Files: from a dialog, or dropped, with the folders in them.

const isImage = (name) => !/(^|\/)\./.test(name) && server.suffixes.some((suffix) => name.toLowerCase().endsWith(suffix));

async function filesOf(entry, path = "") {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => { entry.file(resolve, reject); });
    return [{ file, name: path + file.name }];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) { // a reader gives a hundred entries at a time
    const some = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
    if (!some.length) break;
    for (const one of some) found.push(...await filesOf(one, `${path}${entry.name}/`));
  }
  return found.filter((one) => isImage(one.name));
}

async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, name: file.name }));
  const found = [];
  for (const entry of entries) found.push(...await filesOf(entry));
  return found;
}

let depth = 0; // dragenter and dragleave come for every element that is passed
const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
for (const [type, by] of [["dragenter", 1], ["dragleave", -1]]) {
  addEventListener(type, (event) => {
    if (!holdsFiles(event)) return;
    depth += by;
    document.body.classList.toggle("dragging", depth > 0);
  });
}
addEventListener("dragover", (event) => { if (holdsFiles(event)) event.preventDefault(); });
addEventListener("drop", async (event) => {
  if (!holdsFiles(event)) return;
  event.preventDefault();
  depth = 0;
  document.body.classList.remove("dragging");
  if (server) score(await dropped(event.dataTransfer));
});
find("choose").addEventListener("click", () => find("files").click());
find("choose-folder").addEventListener("click", () => find("folder").click());
for (const id of ["files", "folder"]) {
  find(id).addEventListener("change", () => {
    const files = [...find(id).files].map((file) => ({ file, name: file.webkitRelativePath || file.name }));
    find(id).value = "";
    if (server) score(id === "folder" ? files.filter((one) => isImage(one.name)) : files);
  });
}

// Scoring: a few images to a request, two requests at a time, so that results come soon and none is too large.

const TOGETHER = 8;
const AT_ONCE = 2;
let rows = [];
let lot = { files: [], requests: 0, total: 0 }; // what was given; another one once it is stopped or cleared

function score(files) {
  if (!files.length) {
    say("No images among what was given.");
    return;
  }
  lot.files.push(...files);
  lot.total += files.length;
  document.body.classList.add("scoring");
  showProgress();
  for (let started = lot.requests; started < AT_ONCE; started += 1) work(lot);
}

async function work(mine) {
  mine.requests += 1;
  while (mine === lot && mine.files.length) {
    const found = await send(nextPortion(), mine);
    if (mine !== lot) return;
    rows.push(...found.map((row, index) => ({ ...row, given: rows.length + index })));
    arrange();
    showProgress();
  }
  mine.requests -= 1;
}

function nextPortion() {
  const portion = [];
  let bytes = 0;
  while (lot.files.length && portion.length < TOGETHER) {
    bytes += lot.files[0].file.size;
    if (portion.length && bytes > server.limits.body / 2) break;
    portion.push(lot.files.shift());
  }
  return portion;
}

const tooLarge = ({ file, name }) => failed(name, {
  status: 413,
  message: `the file has ${number(file.size / 1e6)} MB, and a request may have ${server.limits.body / 1e6} MB (--max-body-mb)`,
});

async function send(portion, mine) {
  if (portion[0].file.size >= server.limits.body) return portion.map(tooLarge); // one alone: it is not worth the way
  const address = `/score?heatmaps=true&model=${encodeURIComponent(chosen().name)}`;
  for (;;) {
    const form = new FormData();
    for (const { file, name } of portion) form.append("files", file, name);
    try {
      const answer = await ask(address, { method: "POST", body: form });
      setState("ready", "Ready");
      return answer;
    } catch (problem) {
      if (problem.status === 401) askForToken();
      if (problem.status !== 503 || mine !== lot) return portion.map(({ name }) => failed(name, problem));
      setState("", "The server is busy; trying again");
      mine.files.unshift(...portion.splice(Math.ceil(portion.length / 2))); // fewer may be done in time
      await pause(problem.after);
    }
  }
}

const failed = (path, problem) => ({
  path, score: null, p_value: null, p_estimate: null, anomalous: null, picture: null, heatmap: null,
  error: problem.status ? problem.message : "the server could not be reached, or the file not be read",
});

function showProgress() {
  const { total } = lot;
  find("bar").value = total ? rows.length / total : 0;
  for (const id of ["bar", "stop"]) find(id).hidden = rows.length >= total;
  say(`${rows.length < total ? `${rows.length.toLocaleString("en")} of ` : ""}${several(total, "image")} done`);
  if (rows.length >= total) {
    showHistory();
    showDrift();
  }
}

function say(text) {
  find("running").hidden = false;
  find("done").textContent = text;
}

find("stop").addEventListener("click", () => {
  lot = { files: [], requests: 0, total: rows.length };
  showProgress();
});

function clear() {
  rows = [];
  lot = { files: [], requests: 0, total: 0 };
  find("running").hidden = true;
  document.body.classList.remove("scoring");
  arrange();
}
find("clear").addEventListener("click", () => {
  clear();
  find("choose").focus();
});

// Results.

const PORTION = 200; // rows in the page; more come when asked for
let limit = PORTION;
let visible = [];
const filters = {
  all: () => true,
  anomalous: (row) => row.anomalous === true,
  normal: (row) => row.anomalous === false,
  unreadable: (row) => row.error !== null,
};
const value = (row) => row.score ?? -Infinity; // what could not be read comes last, or first
const orders = {
  high: (a, b) => value(b) - value(a) || a.given - b.given,
  low: (a, b) => (a.score ?? Infinity) - (b.score ?? Infinity) || a.given - b.given,
  given: (a, b) => a.given - b.given,
};

function arrange() {
  visible = rows.filter(filters[find("show").value]).sort(orders[find("sort").value]);
  find("table").tBodies[0].replaceChildren(...visible.slice(0, limit).map((row) => (row.element ??= tableRow(row))));
  find("results").hidden = !rows.length;
  find("more").hidden = visible.length <= limit;
  find("more").textContent = `Show more: ${several(Math.max(visible.length - limit, 0), "image")} left`;
  summarise();
}

function summarise() {
  const model = chosen();
  const scored = rows.filter((row) => row.error === null);
  const unreadable = rows.length - scored.length;
  const flagged = rows.filter((row) => row.anomalous).length;
  const { threshold } = model;
  let title = "Which of these images are unusual?";
  if (scored.length) {
    title = threshold === null ? `${several(scored.length, "image")}, the most surprising first`
      : `${flagged.toLocaleString("en")} of ${several(scored.length, "image")} ${flagged === 1 ? "is" : "are"} anomalous`;
  } else if (unreadable) title = "None of these files could be read";
  find("headline").textContent = title;
  const failures = unreadable ? ` ${several(unreadable, "file")} could not be read.` : "";
  find("lead").textContent = scored.length || unreadable
    ? (threshold === null ? "The model has no calibration set, so there is no threshold: only an order." : promise(model)) + failures
    : "Drop images here, and see how surprising each of them is, and where.";
}

function promise({ threshold, card: { calibration } }) {
  const share = `${Number((100 * calibration.rate_used).toPrecision(3))}\u00a0%`;
  return `Scores above ${number(threshold)}, which ${calibration.kind === "split" ? "at most" : "about"} ${share} of normal images exceed.`;
}

const label = (row) => (row.error !== null ? "not readable" : row.anomalous === null ? "" : row.anomalous ? "anomalous" : "normal");

function p(row) {
  if (row.p_value === null) return "";
  if (row.p_estimate === null || row.p_estimate === row.p_value) return row.p_value.toFixed(3);
  const estimate = row.p_estimate;
  return `~${estimate < 1e-4 ? estimate.toExponential(0).replace("e-", "e−") : Number(estimate.toPrecision(1))}`;
}

function named(path) {
  const cut = path.lastIndexOf("/") + 1;
  return cut ? [make("span", { className: "folder" }, path.slice(0, cut)), path.slice(cut)] : [path];
}

function picture(row) {
  if (!row.picture) return make("span", { className: "none" }, row.error === null ? "no picture" : "no image");
  const found = make("span", { className: "picture" }, make("img", { className: "thumb", alt: "", src: row.picture }));
  if (row.heatmap) found.append(make("img", { className: "heat", alt: "", src: row.heatmap }));
  return found;
}

function tableRow(row) {
  const look = make("td", { className: "look" });
  if (row.picture) {
    const open = make("button", { className: "open", type: "button" }, picture(row));
    open.setAttribute("aria-label", `Enlarge ${row.path}`);
    open.addEventListener("click", () => show(row));
    look.append(open);
  } else look.append(picture(row));
  const name = make("th", { scope: "row" }, make("span", { className: "path" }, ...named(row.path)));
  if (label(row)) name.append(make("span", { className: "label" }, label(row)));
  if (row.error !== null) name.append(make("span", { className: "why" }, row.error));
  return make("tr", { className: row.error !== null ? "unreadable" : row.anomalous ? "anomalous" : "" }, look, name,
    make("td", { className: "number" }, row.score === null ? "" : number(row.score)),
    make("td", { className: "number" }, p(row)));
}

for (const id of ["show", "sort"]) {
  find(id).addEventListener("change", () => {
    limit = PORTION;
    arrange();
  });
}
find("more").addEventListener("click", () => {
  limit += PORTION;
  arrange();
});

// One image, large.

let current = null;

function show(row) {
  current = row;
  const large = picture(row);
  const { naturalWidth, naturalHeight } = row.element.querySelector(".thumb");
  large.style.setProperty("--aspect", naturalWidth / naturalHeight || 1);
  find("viewer").querySelector(".stage").replaceChildren(large);
  find("viewer-name").replaceChildren(...named(row.path));
  find("facts").textContent = [`score ${number(row.score)}`, p(row) && `p-value ${p(row)}`, label(row)].filter(Boolean).join(" · ");
  if (!find("viewer").open) find("viewer").showModal();
}

function step(by) {
  const shown = visible.filter((row) => row.picture);
  const next = shown[shown.indexOf(current) + by];
  if (next) show(next);
}

find("previous").addEventListener("click", () => step(-1));
find("next").addEventListener("click", () => step(1));
find("viewer").addEventListener("click", (event) => { if (event.target === find("viewer")) find("viewer").close(); });
find("viewer").addEventListener("close", () => current?.element?.querySelector(".open")?.focus());
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select")) return;
  if (event.key.toLowerCase() === "h" && !find("heat-label").hidden) find("heat").click();
  if (!find("viewer").open) return;
  if (event.key === "ArrowRight") step(1);
  if (event.key === "ArrowLeft") step(-1);
});

// History.

const MOST_RECENT = 18;

async function showHistory() {
  const found = await ask("/history").catch(() => []);
  find("history").hidden = !found.length;
  find("recent").replaceChildren(...found.slice(0, MOST_RECENT).map(recentItem));
}

function recentItem(row) {
  const when = new Date(row.time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const kind = row.error !== null ? "unreadable" : row.anomalous ? "anomalous" : "";
  const facts = [row.score === null ? "" : `score ${number(row.score)}`, server.models.length > 1 ? row.model : ""];
  return make("li", { className: kind },
    make("div", { className: "frame" }, picture(row)),
    make("span", { className: "path", title: row.path }, ...named(row.path)),
    make("span", { className: "label" }, label(row)),
    make("span", { className: "when" }, [...facts, when].filter(Boolean).join(" · ")));
}

connect();
