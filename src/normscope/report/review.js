// One image at a time beside the table, a verdict for each, and the verdicts as a CSV file.
const viewer = find("viewer");
const remembered = `normscope verdicts ${report.id}`;
let current = null;

function stage(row) {
  const picture = row.element.querySelector(".picture");
  const none = document.createElement("p");
  none.className = "quiet";
  none.textContent = "No picture of this image is kept in this report.";
  const place = viewer.querySelector(".stage");
  const image = picture && picture.querySelector(".thumb");
  if (image) place.style.setProperty("--aspect", image.getAttribute("width") / image.getAttribute("height"));
  place.replaceChildren(picture ? picture.cloneNode(true) : none);
}

function show(row) {
  if (current) current.element.removeAttribute("aria-current");
  current = row;
  row.element.setAttribute("aria-current", "true");
  stage(row);
  describe();
}

function describe() {
  if (!current) return;
  const cells = current.element.querySelectorAll("td.number");
  const verdict = current.element.querySelector(".label");
  find("name").replaceChildren(...current.element.querySelector(".path").cloneNode(true).childNodes);
  find("facts").textContent = [
    `Rank ${(current.rank + 1).toLocaleString("en")}`,
    `score ${cells[1].textContent}`,
    ...(cells[2] ? [`p-value ${cells[2].textContent}`, verdict.textContent] : []),
  ].join(" · ");
  viewer.querySelectorAll("[data-verdict]").forEach((button) => {
    button.setAttribute("aria-pressed", String(button.dataset.verdict === current.review));
  });
}

function step(by) {
  if (!visible.length) return;
  const at = visible.indexOf(current);
  const next = at < 0 ? 0 : Math.min(Math.max(at + by, 0), visible.length - 1);
  goTo(next);
}

function goTo(index) {
  showMore(index + 1);
  show(visible[index]);
  visible[index].element.scrollIntoView({ block: "nearest" });
}

function judge(verdict) {
  if (!current) return;
  const judged = current;
  const at = visible.indexOf(judged);
  setReview(judged, verdict);
  keep();
  describe();
  showProgress();
  changed();
  if (at + 1 < visible.length) goTo(at + 1);
}

function setReview(row, verdict) {
  row.review = verdict;
  row.element.querySelector(".reviewed")?.remove();
  const mark = document.createElement("span");
  mark.className = "reviewed";
  mark.textContent = verdict === "skip" ? "skipped" : `you: ${verdict}`;
  row.element.querySelector("th").append(mark);
}

const judged = () => rows.filter((row) => row.review === "anomalous" || row.review === "fine");

function showProgress() {
  const seen = rows.filter((row) => row.review !== null).length;
  find("progress").textContent = seen ? `${several(seen, "image")} reviewed, ${several(judged().length, "verdict")}` : "";
  find("download").disabled = judged().length === 0;
}

// Verdicts outlive a reload where the browser keeps anything for a file; where it does not, the page works all the same.
function keep() {
  try {
    localStorage.setItem(remembered, JSON.stringify(rows.filter((row) => row.review).map((row) => [row.rank, row.review])));
  } catch { /* nothing is kept */ }
}

function restore() {
  try {
    for (const [rank, verdict] of JSON.parse(localStorage.getItem(remembered) ?? "[]")) {
      if (rows[rank] && ["anomalous", "fine", "skip"].includes(verdict)) setReview(rows[rank], verdict);
    }
  } catch { /* nothing was kept */ }
}

function download() {
  const quoted = (text) => `"${text.replaceAll('"', '""')}"`;
  const lines = judged().map((row) => `${quoted(row.cell)},${quoted(row.review)}\r\n`);
  const address = URL.createObjectURL(new Blob(['"path","verdict"\r\n', ...lines], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = "verdicts.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

const keys = {
  a: () => judge("anomalous"),
  f: () => judge("fine"),
  s: () => judge("skip"),
  j: () => step(1),
  k: () => step(-1),
  ArrowRight: () => step(1),
  ArrowLeft: () => step(-1),
  h: () => find("heat").click(),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
  if (typing || !find("keys").checked || event.ctrlKey || event.metaKey || event.altKey) return;
  const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (action) {
    event.preventDefault();
    viewer.classList.add("open");
    action();
  }
});

table.addEventListener("click", (event) => {
  const row = rows.find((one) => one.element === event.target.closest("tr"));
  if (!row || String(getSelection())) return;
  viewer.classList.add("open");
  show(row);
});

viewer.querySelectorAll("[data-verdict]").forEach((button) => {
  button.addEventListener("click", () => judge(button.dataset.verdict));
});
find("previous").addEventListener("click", () => step(-1));
find("next").addEventListener("click", () => step(1));
find("close").addEventListener("click", () => viewer.classList.remove("open"));
find("download").addEventListener("click", download);
listeners.push(describe);

restore();
showProgress();
if (rows.length) show(rows[0]);
