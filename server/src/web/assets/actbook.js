// Enhances the pages. Without it every link and every form works, and times are in UTC.
'use strict';

const root = document.documentElement;
const find = (selector, from = document) => from.querySelector(selector);
const findAll = (selector, from = document) => [...from.querySelectorAll(selector)];
const lettersAreOn = () => root.dataset.keys === 'on';

// Times: as the reader chose. `datetime` is the truth, the text is one way to show it.
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const duration = (ms) => {
  const [s, m, h, d] = [SECOND, MINUTE, HOUR, DAY].map((unit) => Math.floor(Math.max(ms, 0) / unit));
  if (m === 0) return `${s}s`;
  if (h === 0) return `${m}m ${String(s % 60).padStart(2, '0')}s`;
  return d === 0 ? `${h}h ${String(m % 60).padStart(2, '0')}m` : `${d}d ${h % 24}h`;
};
const clock = (at, millis) => {
  const zone = root.dataset.times === 'utc' ? 'UTC' : undefined;
  const day = (date) => date.toLocaleDateString('en-CA', { timeZone: zone });
  const parts = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone: zone };
  const isToday = day(at) === day(new Date());
  if (isToday || millis) parts.second = '2-digit';
  if (millis) parts.fractionalSecondDigits = 3;
  const time = at.toLocaleTimeString('en-GB', parts);
  return isToday ? time : `${at.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: zone })} ${time}`;
};
const showTimes = (from = document) => {
  for (const element of findAll('time[datetime]', from)) {
    const at = new Date(element.dateTime);
    const relative = root.dataset.times === 'relative';
    element.textContent = relative ? `${duration(Date.now() - at)} ago` : clock(at, 'millis' in element.dataset);
    element.title = at.toISOString();
  }
};
// Ticks of a drawing, which has no `time` elements.
const showTicks = () => {
  for (const text of findAll('text[data-at]')) {
    const at = new Date(text.dataset.at), precision = text.dataset.precision;
    const zone = root.dataset.times === 'utc' ? 'UTC' : undefined;
    const parts = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone: zone };
    if (precision === 'second' || precision === 'milli') parts.second = '2-digit';
    if (precision === 'milli') parts.fractionalSecondDigits = 1;
    const day = precision === 'day' ? `${at.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: zone })} ` : '';
    text.textContent = day + at.toLocaleTimeString('en-GB', parts);
  }
};
const countOn = () => {
  for (const element of findAll('time[data-since]')) element.textContent = duration(Date.now() - element.dataset.since);
};

// Copying, with a word that it is done.
const announce = (text) => { const live = find('.live'); if (live) live.textContent = text; };
const copy = async (text, button) => {
  await navigator.clipboard?.writeText(text);
  button.dataset.copied = '';
  announce('Copied');
  setTimeout(() => { delete button.dataset.copied; announce(''); }, 1500);
};

// Suggestions for the value of a filter, as it is typed.
const suggest = async (form) => {
  const query = new URLSearchParams({ add: form.elements.add.value, value: form.elements.value.value });
  const response = await fetch(`/filter-values?${query}`);
  if (response.ok) find('datalist', form).innerHTML = await response.text();
};
let suggesting = 0;
document.addEventListener('input', (event) => {
  if (!('suggest' in event.target.dataset)) return;
  clearTimeout(suggesting);
  suggesting = setTimeout(suggest, 120, event.target.form);
});
document.addEventListener('focusin', (event) => { if (event.target.matches('input[data-suggest]')) suggest(event.target.form); });

// Confirmations open in a dialog instead of a page of their own.
const ask = find('#ask');
const openConfirmation = async (form, button) => {
  // The attributes: a field named `action` hides the form's own property.
  const url = new URL(button.getAttribute('formaction') ?? form.getAttribute('action'), location.href);
  url.search = new URLSearchParams(new FormData(form, button)).toString();
  const response = await fetch(url, { headers: { Accept: 'text/html' } });
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  const content = find('[data-dialog]', page);
  if (!content) { location.assign(url); return; }
  const back = form.elements.namedItem('back');
  if (back) content.append(back.cloneNode());
  ask.replaceChildren(document.importNode(content, true));
  showTimes(ask);
  ask.showModal();
};

document.addEventListener('submit', (event) => {
  // What starts something is sent once, however often its button is pressed.
  if ('once' in event.target.dataset) {
    if ('sent' in event.target.dataset) { event.preventDefault(); return; }
    event.target.dataset.sent = '';
  }
  const button = event.submitter;
  if (!button || !('confirm' in button.dataset) || !ask?.showModal) return;
  event.preventDefault();
  openConfirmation(event.target, button);
});

// A page that comes back from the browser's memory may be sent again.
addEventListener('pageshow', () => { for (const form of findAll('[data-sent]')) delete form.dataset.sent; });

document.addEventListener('click', (event) => {
  const target = event.target;
  const copied = target.closest('[data-copy]');
  if (copied) { copy(copied.dataset.copy, copied); return; }
  const link = target.closest('[data-copy-link]');
  if (link) { event.preventDefault(); copy(link.href, link); return; }
  if (target.closest('dialog [data-close]') || target === ask) { event.preventDefault(); target.closest('dialog').close(); return; }
  const opener = target.closest('[data-opens=keys]');
  if (opener) { event.preventDefault(); find('#keys-dialog').showModal(); return; }
  const fold = target.closest('[data-fold]');
  if (fold) { foldTree(fold); return; }
  for (const menu of findAll('details.menu[open], details.more-filters[open]')) if (!menu.contains(target)) menu.open = false;
  const row = target.closest('tr[data-href]');
  if (row && !target.closest('a, button, input, summary') && getSelection().isCollapsed) location.assign(row.dataset.href);
});

// A tree of JSON folds and unfolds as a whole.
const foldTree = (button) => {
  const inner = findAll('details details', button.closest('section'));
  const open = !inner.some((one) => one.open);
  for (const one of inner) one.open = open;
  button.textContent = open ? 'Fold' : 'Unfold';
};
const showFolds = () => {
  for (const button of findAll('[data-fold]')) button.hidden = !find('details details', button.closest('section'));
};

// Keys. Letters are off while typing, or when the reader switched them off (WCAG 2.1.4).
const PLACES = { e: '/', q: '/questions', p: '/plans', t: '/tools', s: '/stats', j: '/journal' };
let goes = false;
const isTyping = (element) => element.closest?.('input:not([type=checkbox], [type=radio]), textarea, select');
const rows = () => findAll('.q-card, tr[data-href]');
const focused = () => document.activeElement?.closest?.('.q-card, tr[data-href]') ?? find('.q-card.focus, tr.focus');
const move = (step) => {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(focused());
  const next = all[at < 0 ? 0 : Math.max(0, Math.min(all.length - 1, at + step))];
  for (const one of all) one.classList.toggle('focus', one === next);
  markedId = next.id;
  if (!next.hasAttribute('tabindex')) next.tabIndex = -1;
  next.focus();
};
const letters = {
  j: () => move(1),
  k: () => move(-1),
  o: () => { const row = focused(); if (row) location.assign(row.dataset.href); },
  a: () => find('[data-key=a]', focused() ?? undefined)?.click(),
  r: () => find('[data-key=r]', focused() ?? undefined)?.click(),
};
document.addEventListener('keydown', (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector('dialog[open]')) return;
  if (event.key === '/') { const search = find('input[type=search]'); if (search) { event.preventDefault(); search.focus(); search.select(); } return; }
  if (event.key === '?') { find('#keys-dialog')?.showModal(); return; }
  if (event.key === 'Escape') {
    const menu = find('details.menu[open], details.more-filters[open]');
    if (menu) { menu.open = false; find('summary', menu).focus(); } else find('#panel [data-close]')?.click();
    return;
  }
  if (!lettersAreOn()) return;
  if (goes && PLACES[event.key]) { location.assign(PLACES[event.key]); return; }
  goes = event.key === 'g';
  if (!goes && letters[event.key]) { event.preventDefault(); letters[event.key](); }
});

// Tabs: arrow keys move between them, as the pattern for tabs asks.
document.addEventListener('keydown', (event) => {
  const tab = event.target.closest?.('[role=tab]');
  if (!tab || !['ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(event.key)) return;
  const tabs = findAll('[role=tab]', tab.parentElement);
  const last = tabs.length - 1;
  const at = { ArrowLeft: tabs.indexOf(tab) - 1, ArrowRight: tabs.indexOf(tab) + 1, Home: 0, End: last }[event.key];
  event.preventDefault();
  tabs[(at + tabs.length) % tabs.length].focus();
});

// Rows that are selected, kept while live rows are replaced.
const picked = new Set();
let pickedAll = false;
const showPicked = () => {
  const form = find('#bulk');
  if (!form) return;
  const boxes = findAll('input[name=id][form=bulk]');
  // What is no longer shown is no longer selected.
  for (const id of [...picked]) if (!boxes.some((box) => box.value === id)) picked.delete(id);
  for (const box of boxes) { box.checked = picked.has(box.value); box.closest('tr').classList.toggle('sel', box.checked || pickedAll); }
  const all = find('[data-pick-page]'), none = find('[data-pick-none]'), matching = find('[data-pick-matching]');
  const isAny = pickedAll || picked.size > 0;
  all.hidden = false;
  all.checked = boxes.length > 0 && boxes.every((box) => box.checked);
  all.indeterminate = !all.checked && boxes.some((box) => box.checked);
  matching.checked = pickedAll;
  none.hidden = !isAny;
  find('[data-picked]').textContent = pickedAll || !picked.size ? 'Select executions, or' : `${picked.size} selected, or`;
  for (const button of findAll('button[name=action]', form)) button.disabled = !isAny;
};
document.addEventListener('change', (event) => {
  const box = event.target;
  const pick = (one) => { if (one.checked) picked.add(one.value); else picked.delete(one.value); };
  if ('pickMatching' in box.dataset) pickedAll = box.checked;
  else if ('pickPage' in box.dataset) for (const one of findAll('input[name=id][form=bulk]')) { one.checked = box.checked; pick(one); }
  else if (box.getAttribute('form') === 'bulk') pick(box);
  else return;
  showPicked();
});
document.addEventListener('reset', () => { picked.clear(); pickedAll = false; setTimeout(showPicked); });

// Live parts: a switch that pauses them, and a word when the connection is lost.
let isPaused = false;
const liveSwitch = find('[data-live-switch]');
if (liveSwitch) {
  liveSwitch.hidden = false;
  liveSwitch.addEventListener('click', () => {
    isPaused = !isPaused;
    liveSwitch.setAttribute('aria-pressed', isPaused);
    find('span', liveSwitch).textContent = isPaused ? 'Show live rows' : 'Pause live rows';
    if (!isPaused) location.reload();
  });
}
document.addEventListener('htmx:sse:before:message', (event) => { if (isPaused) event.preventDefault(); });
document.addEventListener('htmx:sse:error', () => { root.dataset.live = 'lost'; announce('Live connection lost: what you see may be old. Trying again.'); });
document.addEventListener('htmx:sse:after:connection', () => { delete root.dataset.live; announce(''); });
// The first question is the focused one until a key moves on; a live part that was replaced has lost the mark.
let markedId = '';
const markFocused = () => {
  const cards = findAll('.q-card');
  const marked = cards.find((card) => card.id === markedId) ?? cards[0];
  for (const card of cards) card.classList.toggle('focus', card === marked);
};
// The title says what the live parts say: where the execution stands, and how many questions wait.
const showTitle = () => {
  const [, count = '', name] = /^(\(\d+\) )?(.*)$/.exec(document.title);
  const waiting = find('#questions')?.dataset.waiting, status = find('#head')?.dataset.title;
  const counted = waiting === undefined ? count : Number(waiting) ? `(${waiting}) ` : '';
  document.title = counted + (status ? `${status} · Actbook` : name);
  if (waiting === undefined) return;
  const link = find('.nav a[href="/questions"]');
  find('.count', link)?.remove();
  if (Number(waiting)) link.insertAdjacentHTML('beforeend', `<span class="count">${Number(waiting)}<span class="sr"> waiting</span></span>`);
};
const refresh = () => { showTitle(); showTimes(); showTicks(); showFolds(); markFocused(); showPicked(); };
document.addEventListener('htmx:sse:after:message', refresh);

refresh();
// On a narrow screen the navigation scrolls; the place where the reader is comes into sight.
find('.nav [aria-current]')?.scrollIntoView({ inline: 'nearest', block: 'nearest' });
setInterval(() => { countOn(); if (root.dataset.times === 'relative') showTimes(); }, SECOND);
