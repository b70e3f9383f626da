"use strict";
// Asks for what the page's panels show, every two seconds while somebody looks. Texts of others are only ever set as
// text. The token is kept for this tab until it is closed, and goes nowhere but to this server, in a header.
(() => {
  const KEY = "quarterdeck-token", EVERY_MS = 2000;
  const form = document.getElementById("token"), input = form.querySelector("input");
  const said = form.querySelector("output"), live = document.getElementById("live");
  const ready = document.getElementById("ready"), when = document.getElementById("when"), forget = document.getElementById("forget");
  const panels = [...document.querySelectorAll("[data-panel]")];
  let token = sessionStorage.getItem(KEY) || "", timer = 0;

  class Refused extends Error {}

  const ask = async (path) => {
    const headers = { Accept: "application/json" };
    if (token) headers.Authorization = `Bearer ${token}`;
    const answer = await fetch(path, { headers, cache: "no-store", credentials: "omit", redirect: "error" });
    if (answer.status === 401) throw new Refused();
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${answer.statusText}`);
    return answer.json();
  };

  const made = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined && text !== null) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const table = (heads, rows) => {
    const whole = made("table"), head = whole.createTHead().insertRow(), body = whole.createTBody();
    for (const [text, kind] of heads) head.append(made("th", text, kind));
    for (const cells of rows) body.insertRow().append(...cells);
    return whole;
  };
  const NUMBER = "number";
  const number = (value) => made("td", typeof value === "number" ? value.toLocaleString("en") : value, NUMBER);
  const name = (text) => Object.assign(made("td", text, "name"), { title: text });
  const state = (name) => made("td", name, /^[a-z]+$/.test(name) ? name : "");
  const size = (bytes) => {
    let unit = 0;
    for (; bytes >= 1024 && unit < 5; unit += 1) bytes /= 1024;
    return `${bytes.toFixed(unit ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
  };
  const age = (seconds) => {
    for (const [unit, name] of [[86400, "d"], [3600, "h"], [60, "min"]])
      if (seconds >= unit) return `${Math.floor(seconds / unit)} ${name}`;
    return `${Math.floor(seconds)} s`;
  };
  const seconds = (value) => (value === null ? "" : value < 0.1 ? `${(value * 1000).toFixed(1)} ms` : `${value.toFixed(2)} s`);

  const draw = {
    crew(told) {
      const own = told.coordinator, parts = [];
      const waits = own.queue_depth ? `, the oldest for ${own.oldest_age_s.toFixed(1)} s` : "";
      const running = own.queries === 1 ? "1 query" : `${own.queries} queries`;
      const waiting = own.queue_depth === 1 ? "1 work" : `${own.queue_depth} works`;
      parts.push(made("p", `${own.name}: ${running} running, ${waiting} waiting${waits}`));
      if (!told.workers.length) return [...parts, made("p", "No workers. Start one: quarterdeck worker", "late")];
      const heads = [["worker"], ["node"], ["state"], ["in flight / slots", NUMBER], ["credit", NUMBER],
        ["cache", NUMBER], ["free disk", NUMBER], ["heard", NUMBER]];
      return [...parts, table(heads, told.workers.map((one) => [name(one.worker_id), name(one.node),
        state(one.state), number(`${one.in_flight} / ${one.slots}`), number(one.credit),
        number(one.disk ? size(one.disk.cache_bytes) : ""), number(one.disk ? size(one.disk.free_bytes) : ""),
        number(`${one.heard_s_ago.toFixed(1)} s`)]))];
    },
    queries(told) {
      if (!told.length) return [made("p", "None yet.", "dim")];
      const heads = [["query"], ["kind"], ["state"], ["tenant"], ["text"], ["works", NUMBER], ["rows", NUMBER],
        ["age", NUMBER], ["took", NUMBER]];
      return [table(heads, told.map((one) => {
        const text = made("td", null, "text");
        text.append(made("div", one.text));
        if (one.error) text.append(made("div", one.error.message, "reason"));
        const again = Math.max(0, one.attempts - one.works);
        return [made("td", one.query_id.slice(0, 8), "id"), made("td", one.kind), state(one.state),
          name(one.tenant), text, number(one.works ? `${one.delivered}/${one.works}${again ? ` +${again}` : ""}` : ""),
          number(one.rows), number(age(one.age_s)), number(seconds(one.duration_s))];
      }))];
    },
    figures(told) {
      const flat = Object.entries(told).filter(([, value]) => typeof value === "number");
      return [table([["figure"], ["value", NUMBER]], flat.map(([name, value]) => [made("td", name), number(value)]))];
    },
  };

  const lookReady = async () => {
    const told = await (await fetch("ready", { cache: "no-store", credentials: "omit" })).json();
    ready.textContent = told.ready ? "ready" : `not ready: ${told.missing.join(", ")}`;
    ready.className = told.ready ? "good" : "late";
  };

  const look = async () => {
    clearTimeout(timer);
    try {
      await lookReady();
      const told = await Promise.all(panels.map((panel) => ask(panel.dataset.path)));
      panels.forEach((panel, at) => panel.querySelector("div").replaceChildren(...draw[panel.dataset.panel](told[at])));
      if (token) sessionStorage.setItem(KEY, token);
      form.hidden = true;
      live.hidden = false;
      forget.hidden = !token;
      when.textContent = `As of ${new Date().toLocaleTimeString()}.`;
    } catch (error) {
      if (error instanceof Refused) {
        said.textContent = token ? "That is not the token of this crew." : "";
        sessionStorage.removeItem(KEY);
        token = "";
        live.hidden = true;
        form.hidden = false;
        return;
      }
      when.textContent = `No answer (${error.message}); trying again.`;
      live.hidden = false;
      if (error instanceof TypeError) [ready.textContent, ready.className] = ["no answer", "late"];  // nobody is there
    }
    if (!document.hidden) timer = setTimeout(look, EVERY_MS);
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    token = input.value.trim();
    input.value = "";
    look();
  });
  forget.addEventListener("click", () => {
    token = "";
    sessionStorage.removeItem(KEY);
    look();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && form.hidden) look(); });
  for (const block of document.querySelectorAll("pre")) {
    const text = block.textContent, copy = made("button", "copy");
    copy.addEventListener("click", () => navigator.clipboard.writeText(text).then(() => { copy.textContent = "copied"; }));
    if (navigator.clipboard) block.append(copy);
  }
  if (panels.length) look();
})();
