"use strict";

// What every part of the page shares: the data that came with it, its rows, and who wants to know of a change.
const report = JSON.parse(document.getElementById("data").textContent);
const table = document.querySelector("#ranked tbody");
const rows = Array.from(table.rows, (element, rank) => {
  const path = element.querySelector(".path").textContent;
  const cell = element.dataset.cell ?? path;
  return { element, rank, path, cell, score: Number(element.dataset.score), review: null };
});
const listeners = [];
const changed = () => listeners.forEach((listener) => listener());
const find = (id) => document.getElementById(id);
const number = (value) => value.toFixed(report.decimals).replace("-", "−");
const percent = (rate) => `${Number((100 * rate).toPrecision(3))}\u00a0%`;
const several = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

document.querySelectorAll("[data-script]").forEach((element) => { element.hidden = false; });

// The axis of the histogram, as in axis.py.
const axis = report.axis;
const position = (score) => (Math.asinh((score - axis.centre) / axis.width) - axis.low) / (axis.high - axis.low);
const scoreAt = (share) => axis.centre + axis.width * Math.sinh(axis.low + share * (axis.high - axis.low));

// The false-alarm rate that a threshold stands for.
function rateOf(threshold) {
  let low = 0;
  let high = report.knots.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (report.knots[middle] <= threshold) low = middle + 1;
    else high = middle;
  }
  return low ? report.rates[low - 1] : 1;
}

// Rows are ranked: those above a threshold are the first ones, so only the rows between two thresholds change.
function countAbove(threshold) {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].score > threshold) low = middle + 1;
    else high = middle;
  }
  return low;
}

let above = report.threshold === null ? 0 : countAbove(report.threshold);

function label(threshold) {
  const now = countAbove(threshold);
  for (let i = Math.min(now, above); i < Math.max(now, above); i += 1) {
    rows[i].element.classList.toggle("anomalous", i < now);
    rows[i].element.querySelector(".label").textContent = i < now ? "anomalous" : "normal";
  }
  above = now;
}

function showThreshold(threshold) {
  const rate = percent(rateOf(threshold));
  const own = threshold === report.threshold;
  const at = `${100 * position(threshold)}%`;
  find("above").firstElementChild.setAttribute("x", at);
  find("line").setAttribute("x1", at);
  find("line").setAttribute("x2", at);
  find("headline").textContent =
    `${above.toLocaleString("en")} of ${several(rows.length, "image")} ${above === 1 ? "is" : "are"} anomalous`;
  find("lead").textContent = `Scores above ${number(threshold)}, which ${report.bound} ${rate} of normal images exceed.`;
  find("rate").textContent =
    `Threshold ${number(threshold)}: ${above.toLocaleString("en")} anomalous; ${report.bound} ${rate} of normal images are flagged.`;
  find("threshold").setAttribute("aria-valuetext", `${number(threshold)}, ${report.bound} ${rate} of normal images`);
  find("reset").disabled = own;
}

function setThreshold(threshold) {
  label(threshold);
  showThreshold(threshold);
  changed();
}

if (report.threshold !== null && rows.length) {
  const slider = find("threshold");
  const own = Math.round(1000 * position(report.threshold));
  slider.value = own;
  showThreshold(report.threshold);
  slider.addEventListener("input", () => {
    const at = Number(slider.value);
    setThreshold(at === own ? report.threshold : scoreAt(at / 1000));
  });
  find("reset").addEventListener("click", () => {
    slider.value = own;
    setThreshold(report.threshold);
    slider.focus();
  });
}
