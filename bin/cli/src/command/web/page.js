// The page of `calisto web`: asks /look again and again and shows what came. Nothing that the
// daemon says is ever taken for HTML.
"use strict";

const SECONDS = 60; // of history
const FLOWS_SHOWN = 1000;
const $ = (id) => document.getElementById(id);
const history = []; // looks, the oldest first
const rates = new Map(); // of counters: name -> [{at, value}]
let every = 500;
let paused = false;

// ---- elements -------------------------------------------------------------------------------

function element(tag, text, cls) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (cls) made.className = cls;
  return made;
}

/** Fills a table: columns are [title, is a number], rows are arrays of texts or elements. */
function table(id, columns, rows, empty) {
  const target = $(id);
  const head = element("tr");
  for (const [title, number] of columns) {
    const cell = element("th", title, number ? "number" : "");
    cell.scope = "col";
    head.append(cell);
  }
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr");
    row.forEach((value, index) => {
      const cell = element("td", undefined, columns[index][1] ? "number" : columns[index][2] || "");
      cell.append(value);
      line.append(cell);
    });
    body.append(line);
  }
  if (rows.length === 0) {
    const line = element("tr");
    const cell = element("td", empty);
    cell.colSpan = columns.length;
    line.append(cell);
    body.append(line);
  }
  const top = element("thead");
  top.append(head);
  target.replaceChildren(top, body);
}

// ---- numbers --------------------------------------------------------------------------------

function grouped(value) {
  return Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
}

function short(value) {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (value >= size) return (value / size).toPrecision(3) + " " + unit;
  }
  return value >= 10 || value === 0 ? String(Math.round(value)) : value.toPrecision(2);
}

/** What a counter grew by in a second, of the last second or so; undefined at first. */
function rate(name, value, at) {
  const seen = rates.get(name) || [];
  if (seen.length && value < seen[seen.length - 1].value) seen.length = 0; // another daemon
  if (!seen.length || at > seen[seen.length - 1].at) seen.push({ at, value });
  while (seen.length > 2 && seen[0].at < at - SECONDS * 1000) seen.shift();
  rates.set(name, seen);
  const before = seen.findLast((one) => one.at <= at - 900) || seen[0];
  return at > before.at ? ((value - before.value) * 1000) / (at - before.at) : undefined;
}

/** The same at every look, for a spark line. */
function course(name) {
  const seen = rates.get(name) || [];
  return seen.slice(1).map((one, index) => ({
    at: one.at,
    value: ((one.value - seen[index].value) * 1000) / (one.at - seen[index].at),
  }));
}

function perSecond(value) {
  return value === undefined ? "" : short(value);
}

// ---- pictures -------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";

function spark(points, now, what) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", "0 0 100 20");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const most = Math.max(1, ...points.map((one) => one.value));
  svg.setAttribute("aria-label", `${what}, last minute, at most ${short(most)}`);
  const line = document.createElementNS(SVG, "polyline");
  const x = (at) => (100 * (1 - (now - at) / (SECONDS * 1000))).toFixed(1);
  const y = (value) => (19 - (18 * value) / most).toFixed(1);
  line.setAttribute("points", points.map((one) => `${x(one.at)},${y(one.value)}`).join(" "));
  svg.append(line);
  return svg;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const colours = new Map(); // application -> its number of six

function kind(core) {
  if (core.state === "idle") return "idle";
  if (core.state === "leaving") return "leaving";
  const name = core.app_name || "the daemon";
  if (!colours.has(name)) colours.set(name, colours.size % 6);
  return colours.get(name);
}

function fill(kind) {
  return colour(typeof kind === "number" ? `--c${kind}` : `--${kind}`);
}

/** A row for each core, time from left to right, a colour for each holder. */
function drawCores(look) {
  const canvas = $("cores");
  const cores = look.cores.cores;
  canvas.hidden = cores.length === 0;
  $("cores-note").textContent = look.cores.enabled
    ? `The last ${SECONDS} s, policy ${look.cores.policy}: ${grouped(look.cores.grants)} given, ` +
      `${grouped(look.cores.parks)} given back, ${grouped(look.cores.takes)} taken.`
    : "This daemon gives out no cores: start it with --cores to have them here.";
  if (canvas.hidden) {
    $("cores-legend").replaceChildren();
    return;
  }
  const height = Math.max(3, Math.min(18, Math.floor(320 / cores.length)));
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.style.height = `${height * cores.length}px`;
  canvas.width = width * scale;
  canvas.height = height * cores.length * scale;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const x = (at) => width * (1 - (look.at_ms - at) / (SECONDS * 1000));
  const fills = new Map();
  const held = new Map();
  history.forEach((one, index) => {
    const until = index + 1 < history.length ? history[index + 1].at_ms : look.at_ms + every;
    one.cores.cores.forEach((core, row) => {
      const of = kind(core);
      if (!fills.has(of)) fills.set(of, fill(of));
      context.fillStyle = fills.get(of);
      context.fillRect(x(one.at_ms), row * height, x(until) - x(one.at_ms) + 0.5, height - 1);
      if (core.state === "held") held.set(core.core, (held.get(core.core) || 0) + 1);
    });
  });
  const shares = cores.map(
    (core) => `core ${core.core} held ${Math.round((100 * (held.get(core.core) || 0)) / history.length)} %`,
  );
  canvas.setAttribute("aria-label", `Of the last minute: ${shares.join(", ")}`);
  const names = [...colours].map(([name, number]) => [name, `k${number}`]);
  $("cores-legend").replaceChildren(
    ...[...names, ["idle", "k-idle"], ["asked back", "k-leaving"]].map(([name, cls]) => {
      const item = element("li");
      item.append(element("span", undefined, cls), name);
      return item;
    }),
  );
}

// ---- sections -------------------------------------------------------------------------------

function showState(problems) {
  $("state").replaceChildren(
    ...(problems.length
      ? problems.map((problem) => element("p", problem, "wrong"))
      : [element("p", "serving", "good")]),
  );
}

function showWorkers(look) {
  const rows = look.status.workers.map((worker) => {
    const name = `worker ${worker.id}`;
    const now = rate(name, worker.packets, look.at_ms);
    return [
      String(worker.id), worker.state, worker.cpu === null ? "any" : String(worker.cpu),
      grouped(worker.groups), grouped(worker.queued), perSecond(now),
      spark(course(name), look.at_ms, `packets a second of worker ${worker.id}`),
    ];
  });
  table("workers", [
    ["worker", true], ["state"], ["CPU", true], ["groups", true], ["queued", true],
    ["packets/s", true], ["last minute"],
  ], rows, "no workers");
}

/** Counters of all threads and ports that say why packets were dropped. */
function drops(look) {
  const sums = new Map();
  const add = (counter) => {
    const [value, help] = sums.get(counter.name) || [0, counter.help];
    sums.set(counter.name, [value + counter.value, help]);
  };
  const isDrop = (counter) => /(^|_)drop/.test(counter.name);
  for (const thread of look.threads) thread.counters.filter(isDrop).forEach(add);
  for (const port of look.status.ports) port.counters.filter(isDrop).forEach(add);
  return [...sums].map(([name, [value, help]]) => ({ name, value, help }));
}

/** The reasons that have dropped anything, the most frequent of now first. */
function droppedNow(look) {
  return drops(look)
    .map((drop) => ({ ...drop, rate: rate(drop.name, drop.value, look.at_ms) }))
    .filter((drop) => drop.value > 0)
    .sort((one, other) => (other.rate || 0) - (one.rate || 0) || other.value - one.value);
}

function showDrops(dropped) {
  table("drops", [["reason"], ["packets", true], ["a second", true], ["what it means", false, "wide"]],
    dropped.map((drop) => [drop.name, grouped(drop.value), perSecond(drop.rate), drop.help]),
    "nothing was dropped");
}

/** What is wrong, as sentences: the daemon's own, what was left to the kernel, what is dropped. */
function problems(look, dropped) {
  const kept = look.fallbacks.filter((one) => one.count > 0).slice(0, 3);
  const left = kept.map((one) => `${grouped(one.count)} sockets were left to the kernel: ${one.message}`);
  const now = dropped.filter((drop) => drop.rate > 0).slice(0, 3);
  const lost = now.map((drop) => `${short(drop.rate)} packets a second are dropped: ${drop.help}`);
  return [...look.obstacles, ...lost, ...left];
}

function showApps(look) {
  const rows = look.apps.map((app) => {
    const packets = app.workers.reduce((sum, worker) => sum + worker.packets, 0);
    const queued = app.workers.reduce((sum, worker) => sum + worker.queued, 0);
    return [
      app.name, String(app.id), String(app.pid),
      app.reason ? `${app.state}: ${app.reason.name}` : app.state,
      String(app.workers.length), grouped(queued),
      perSecond(rate(`app ${app.id}`, packets, look.at_ms)),
    ];
  });
  table("apps", [
    ["name"], ["number", true], ["process", true], ["state"], ["workers", true], ["queued", true],
    ["packets/s", true],
  ], rows, "no application is or was attached");
}

function showPorts(look) {
  const rows = look.status.ports.map((port) => {
    const value = (name) => (port.counters.find((one) => one.name === name) || { value: 0 }).value;
    const now = (name) => perSecond(rate(`${port.port} ${name}`, value(name), look.at_ms));
    return [port.port, port.fault || port.mode, grouped(port.mtu), now("rx_packets"), now("tx_packets")];
  });
  table("ports", [
    ["port"], ["mode"], ["MTU", true], ["received/s", true], ["sent/s", true],
  ], rows, "no port");
}

function showFlows(look) {
  const wanted = $("flows-with").value.trim();
  const rows = look.flows
    .filter((flow) => flow.flow.includes(wanted))
    .slice(0, FLOWS_SHOWN)
    .map((flow) => [
      flow.flow, String(flow.group), flow.worker === null ? "nobody" : String(flow.worker),
      grouped(flow.packets), short(flow.bytes) + "B",
    ]);
  table("flows", [
    ["flow"], ["group", true], ["worker", true], ["packets", true], ["bytes", true],
  ], rows, wanted ? "no flow has that" : "no flow was seen");
}

function showChange(look) {
  $("change").hidden = !look.may_change;
  const select = $("steer");
  const names = look.steer.policies.map(([name]) => name);
  if (select.dataset.names !== names.join()) {
    select.dataset.names = names.join();
    select.replaceChildren(
      ...look.steer.policies.map(([name, help]) => {
        const option = element("option", name);
        option.value = name;
        option.title = help;
        return option;
      }),
    );
    select.value = look.steer.policy;
    $("count").value = String(look.status.workers.length);
  }
}

function show(look) {
  every = look.every_ms;
  history.push(look);
  while (history.length > 2 && history[0].at_ms < look.at_ms - SECONDS * 1000) history.shift();
  const of = look.status;
  $("about").textContent =
    `${of.version}, process ${of.pid}, up ${grouped(of.uptime_s)} s; job ${of.job}, ` +
    `arrangement ${of.arrangement}, policy ${of.policy}; ${grouped(of.frames_free)} of ` +
    `${grouped(of.frames)} frames free`;
  const dropped = droppedNow(look);
  showState(problems(look, dropped));
  drawCores(look);
  showWorkers(look);
  showDrops(dropped);
  showApps(look);
  showPorts(look);
  showFlows(look);
  showChange(look);
  document.body.dataset.looks = String(Number(document.body.dataset.looks || 0) + 1);
}

// ---- the loop -------------------------------------------------------------------------------

async function tick() {
  const began = performance.now();
  if (!paused && !document.hidden) {
    try {
      const answer = await fetch("look", { cache: "no-store" });
      const text = await answer.text();
      if (answer.ok) show(JSON.parse(text));
      else showState([text.trim()]);
    } catch (error) {
      showState([`calisto web does not answer: ${error.message}`]);
    }
  }
  setTimeout(tick, Math.max(50, every - (performance.now() - began)));
}

async function change(what) {
  const body = what === "workers"
    ? { change: what, count: Number($("count").value) }
    : { change: what, policy: $("steer").value };
  $("changed").textContent = "asking";
  try {
    const answer = await fetch("change", {
      method: "POST",
      headers: { Authorization: `Bearer ${$("token").value}`, "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    $("changed").textContent = (await answer.text()).trim();
  } catch (error) {
    $("changed").textContent = `calisto web does not answer: ${error.message}`;
  }
}

function pause() {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("pause").textContent = paused ? "Go on" : "Pause";
}

$("pause").addEventListener("click", pause);
// Enter in a field is no change: each has a button of its own.
$("changes").addEventListener("submit", (event) => event.preventDefault());
for (const button of document.querySelectorAll("[data-change]")) {
  button.addEventListener("click", () => change(button.dataset.change));
}
$("flows-with").addEventListener("input", () => history.length && showFlows(history[history.length - 1]));
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (["INPUT", "SELECT", "BUTTON"].includes(event.target.tagName)) return;
  if (event.key === " ") pause();
  else if (event.key === "/") $("flows-with").focus();
  else return;
  event.preventDefault();
});
window.addEventListener("resize", () => history.length && drawCores(history[history.length - 1]));
tick();
