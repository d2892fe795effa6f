// The sandbox's page: shows what the fake Slack holds as one person sees it, and acts as that person. No library, no build step.
// Everything that comes from messages is put into the page as text, never as markup.
"use strict";

const $ = (id) => document.getElementById(id);
const view = { person: null, channel: null, thread: null, seq: -1, state: null, busy: new Set() };

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

async function ask(path, body) {
  const options = body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : {};
  const answer = await fetch(path, options);
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error || `${answer.status}`);
  return data;
}

// ---------------------------------------------------------------- Slack's texts

const unescape = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
const BOT = "U0OOMBOT";
const nameOf = (id) => (view.state.people.find((p) => p.id === id) || { name: id === BOT ? "oombot" : id }).name;
const groupOf = (id) => (view.state.groups.find((g) => g.id === id) || { handle: id }).handle;

// mrkdwn as far as the bot uses it: fences, code, bold, italic, strike, links, mentions, quotes.
function mrkdwn(text) {
  const out = document.createDocumentFragment();
  const token = /```([\s\S]*?)```|`([^`\n]+)`|<([^<>\n]+)>|(^|[\s(])\*([^*\n]+)\*(?=$|[\s.,:;!?)])|(^|[\s(])_([^_\n]+)_(?=$|[\s.,:;!?)])/gm;
  let at = 0;
  for (const found of text.matchAll(token)) {
    out.append(unescape(text.slice(at, found.index)));
    at = found.index + found[0].length;
    if (found[1] !== undefined) out.append(element("pre", {}, unescape(found[1]).replace(/^\n/, "")));
    else if (found[2] !== undefined) out.append(element("code", {}, unescape(found[2])));
    else if (found[3] !== undefined) out.append(reference(found[3]));
    else if (found[5] !== undefined) out.append(found[4], element("b", {}, mrkdwn(found[5])));
    else out.append(found[6], element("i", {}, mrkdwn(found[7])));
  }
  out.append(unescape(text.slice(at)));
  return out;
}

function reference(inside) {
  const [target, label] = inside.split("|");
  if (target.startsWith("@")) return element("b", {}, "@" + nameOf(target.slice(1)));
  if (target.startsWith("#")) return element("b", {}, "#" + (label || target.slice(1)));
  if (target.startsWith("!subteam^")) return element("b", {}, "@" + groupOf(target.slice(9)));
  if (target.startsWith("!date")) return element("span", {}, label || "");
  if (target.startsWith("!")) return element("b", { class: "ping" }, "@" + target.slice(1));
  return /^https?:/.test(target) ? element("a", { href: unescape(target), rel: "noreferrer" }, unescape(label || target)) : element("span", {}, unescape(inside));
}

const textObject = (object) => (object.type === "mrkdwn" ? mrkdwn(object.text) : document.createTextNode(object.text));

function lines(text) {
  const pre = element("pre");
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const kind = /^\+(?!\+\+)/.test(line) ? "added" : /^-(?!--)/.test(line) ? "removed" : undefined;
    pre.append(element("span", { class: kind }, line), "\n");
  }
  return pre;
}

function rich(node) {
  const inner = () => (node.elements || []).map(rich);
  switch (node.type) {
    case "rich_text": return element("div", {}, ...inner());
    case "rich_text_section": return element("span", {}, ...inner());
    case "rich_text_preformatted": return lines(node.elements.map((e) => e.text || e.url || "").join(""));
    case "rich_text_quote": return element("blockquote", {}, ...inner());
    case "rich_text_list": return element(node.style === "ordered" ? "ol" : "ul", {}, ...node.elements.map((e) => element("li", {}, rich(e))));
    case "link": return element("a", { href: node.url, rel: "noreferrer" }, node.text || node.url);
    case "user": return element("b", {}, "@" + nameOf(node.user_id));
    case "usergroup": return element("b", {}, "@" + groupOf(node.usergroup_id));
    case "channel": return element("b", {}, "#" + node.channel_id);
    default: {
      const style = node.style || {};
      let made = document.createTextNode(node.text || node.name || "");
      if (style.code) made = element("code", {}, made);
      if (style.bold) made = element("b", {}, made);
      if (style.italic) made = element("i", {}, made);
      return made;
    }
  }
}

// ---------------------------------------------------------------- blocks

function block(item, message) {
  switch (item.type) {
    case "header": return element("div", { class: "block" }, element("h3", {}, item.text.text));
    case "divider": return element("hr");
    case "section": {
      const made = element("div", { class: "block" });
      if (item.text) made.append(textObject(item.text));
      if (item.fields) made.append(element("div", { class: "fields" }, ...item.fields.map((f) => element("div", {}, textObject(f)))));
      if (item.accessory) made.append(element("div", { class: "actions" }, button(item.accessory, message)));
      for (const node of made.querySelectorAll("*")) node.normalize();
      made.style.whiteSpace = "pre-wrap";
      return made;
    }
    case "context": return element("div", { class: "block context" }, ...item.elements.map((e) => element("span", {}, textObject(e))));
    case "rich_text": return element("div", { class: "block" }, rich(item));
    case "table": return element("table", {}, ...item.rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell.type === "rich_text" ? rich(cell) : cell.text)))));
    case "actions": return element("div", { class: "block actions" }, ...item.elements.map((e) => button(e, message)));
    case "input": return element("div", { class: "block" }, element("label", {}, item.label.text, element("textarea", { "data-block": item.block_id, "data-action": item.element.action_id }, item.element.initial_value || "")));
    default: return element("div", { class: "block context" }, `(${item.type})`);
  }
}

function button(item, message) {
  const key = `${message.ts} ${item.action_id}`;
  const press = async (event) => {
    if (item.confirm && !window.confirm(`${item.confirm.title.text}\n\n${item.confirm.text.text}`)) return;
    event.target.disabled = true;
    view.busy.add(key);
    await act({ act: "click", user: view.person, channel: message.channel || view.channel, message_ts: message.ts, button: item.action_id });
    setTimeout(() => { view.busy.delete(key); draw(); }, 1500);
  };
  return element("button", { type: "button", class: item.style, onclick: press, disabled: view.busy.has(key), "data-action": item.action_id }, item.text.text);
}

function messageBox(message, inThread) {
  const isBot = message.user === BOT;
  const body = element("div", { class: "body" });
  const time = new Date(parseFloat(message.ts) * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  body.append(element("div", { class: "byline" }, nameOf(message.user), element("time", {}, time + (message.edited ? " (edited)" : ""))));
  if (message.only_for) body.append(element("div", { class: "only" }, "Only visible to you"));
  if (message.blocks && message.blocks.length) body.append(...message.blocks.map((b) => block(b, message)));
  else body.append(element("div", { class: "block", style: "white-space: pre-wrap" }, mrkdwn(message.text || "")));
  const replies = view.state.messages.filter((m) => m.thread_ts === message.ts && m.ts !== message.ts && !m.only_for);
  if (!inThread && replies.length) body.append(element("button", { class: "open-thread", type: "button", onclick: () => { view.thread = message.ts; draw(); } }, `${replies.length} ${replies.length === 1 ? "reply" : "replies"}`));
  const face = element("div", { class: "face" + (isBot ? " bot" : ""), "aria-hidden": true }, nameOf(message.user).slice(0, 1).toUpperCase());
  return element("article", { class: "message" + (message.only_for ? " ephemeral" : ""), "data-ts": message.ts }, face, body);
}

// ---------------------------------------------------------------- drawing

function describe(person) {
  const notes = state().groups.filter((g) => g.members.includes(person.id)).map((g) => "@" + g.handle);
  if (person.guest) notes.push("guest");
  if (person.bot) notes.push("another bot");
  if (person.locale.startsWith("zh")) notes.push("中文");
  return notes.length ? `${person.name} (${notes.join(", ")})` : person.name;
}

const state = () => view.state;

function fill(box, messages, inThread) {
  const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 60;
  box.replaceChildren(...messages.map((m) => messageBox(m, inThread)));
  if (atEnd) box.scrollTop = box.scrollHeight;
}

function draw() {
  const { state } = view;
  if (!state) return;
  const seen = state.messages.filter((m) => m.channel === view.channel && (!m.only_for || m.only_for === view.person));
  const select = $("person");
  if (select.options.length !== state.people.length) {
    select.replaceChildren(...state.people.map((p) => element("option", { value: p.id, selected: p.id === view.person }, describe(p))));
  }
  $("channels").replaceChildren(...state.channels.map((c) => element("li", {}, element("button", { type: "button", "aria-current": String(c.id === view.channel), onclick: () => { view.channel = c.id; view.thread = null; draw(); } }, "# " + c.name))));
  const channel = state.channels.find((c) => c.id === view.channel);
  $("channel-name").textContent = "# " + channel.name;
  $("channel-people").textContent = state.groups.map((g) => `@${g.handle}: ${g.members.map(nameOf).join(", ")}`).join(" · ");
  fill($("messages"), seen.filter((m) => !m.thread_ts || m.thread_ts === m.ts), false);
  $("thread").hidden = !view.thread;
  if (view.thread) fill($("thread-messages"), seen.filter((m) => m.ts === view.thread || m.thread_ts === view.thread), true);
  drawModal(state.views.filter((v) => v.user === view.person).at(-1));
}

function drawIncidents(incidents) {
  $("incidents").replaceChildren(...incidents.map((i) => element("li", { class: "incident" },
    element("button", { type: "button", title: i.command, onclick: () => { $("draft").value = i.command; $("draft").focus(); } }, i.name),
    element("p", {}, i.says),
    i.alert ? element("button", { type: "button", class: "ring", onclick: () => ask("/_demo/alert", { incident: i.name }) }, "↳ ring PagerDuty") : null)));
}

function drawModal(modal) {
  const dialog = $("modal");
  if (!modal) { if (dialog.open) dialog.close(); dialog.dataset.id = ""; return; }
  const errors = JSON.stringify(modal.errors || {});
  if (dialog.dataset.id === modal.id + errors) return;
  dialog.dataset.id = modal.id + errors;
  const fields = element("form", { method: "dialog" });
  fields.append(element("h3", {}, modal.title.text), ...modal.blocks.map((b) => block(b, { ts: "", channel: view.channel })));
  for (const text of Object.values(modal.errors || {})) fields.append(element("p", { class: "error", role: "alert" }, text));
  const submit = async () => {
    const values = {};
    for (const area of fields.querySelectorAll("textarea")) values[area.dataset.action] = area.value;
    await act({ act: "submit", user: view.person, view_id: modal.id, values });
  };
  const bar = element("div", { class: "actions" }, element("button", { type: "button", onclick: () => act({ act: "close", user: view.person, view_id: modal.id }) }, modal.close ? modal.close.text : "Cancel"));
  if (modal.submit) bar.append(element("button", { type: "button", class: "primary", onclick: submit }, modal.submit.text));
  fields.append(bar);
  dialog.replaceChildren(fields);
  if (!dialog.open) dialog.showModal();
}

// ---------------------------------------------------------------- acting and following

async function act(body) {
  $("composer-error").textContent = "";
  try { await ask("/_sandbox/act", body); } catch (wrong) { $("composer-error").textContent = wrong.message; }
  await refresh();
}

function send(text, thread) {
  const words = text.trim();
  if (!words) return;
  const where = { user: view.person, channel: view.channel, thread_ts: thread || "" };
  const command = words.match(/^\/oom\b\s*(.*)$/s), mention = words.match(/^@oombot\b\s*(.*)$/is);
  if (command && thread) $("composer-error").textContent = "Slack has no slash commands in threads: write @oombot check ...";
  else if (command) act({ act: "command", ...where, text: command[1] });
  else if (mention) act({ act: "mention", ...where, text: mention[1] });
  else act({ act: "say", ...where, text: words });
}

async function refresh() {
  const state = await ask("/_sandbox/state");
  state.people = state.people.filter((p) => p.id !== BOT);
  if (state.last === view.seq && view.state) return;
  view.state = state;
  view.seq = state.last;
  view.person ||= (state.people.find((p) => p.id === new URLSearchParams(location.search).get("as")) || state.people[0]).id;
  view.channel ||= state.channels[0].id;
  const newest = state.messages.filter((m) => m.channel === view.channel && !m.thread_ts && !m.only_for && m.user === BOT).at(-1);
  if (view.thread === null && newest) view.thread = newest.ts;
  draw();
}

async function follow() {
  for (;;) {
    try {
      await refresh();
      await ask(`/_sandbox/feed?after=${view.seq}&wait=15`);
    } catch {
      view.seq = -1;
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
}

$("person").addEventListener("change", (event) => { view.person = event.target.value; draw(); });
$("close-thread").addEventListener("click", () => { view.thread = ""; draw(); });
$("composer").addEventListener("submit", (event) => { event.preventDefault(); send($("draft").value, null); $("draft").value = ""; });
$("reply").addEventListener("submit", (event) => { event.preventDefault(); send($("reply-draft").value, view.thread); $("reply-draft").value = ""; });
ask("/_demo/incidents").then((answer) => drawIncidents(answer.incidents), () => drawIncidents([]));
follow();
