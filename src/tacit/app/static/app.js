"use strict";
// What the pages do beyond plain HTML. Everything works without it, except copying, the sliders and uploads.

const part = (name) => document.getElementById(name);

// A form that was sent back: go to what is to be corrected.
const problems = part("problems");
if (problems) problems.focus();

// A line of the columns shows the fields of its kind.
for (const table of document.querySelectorAll("table.columns")) {
  table.classList.add("follows");
  for (const kind of table.querySelectorAll("select[name^=kind-]")) {
    kind.addEventListener("input", () => {
      const line = kind.closest("tr");
      line.dataset.kind = kind.value;
      const [low, high] = line.querySelectorAll(".bounds input");
      for (const bound of [low, high]) bound.placeholder = kind.value === "date" ? "2024-12-31" : "";
    });
  }
}

// Sliders have powers of ten; the text fields beside them are what is sent.
for (const slider of document.querySelectorAll(".slider input")) {
  const field = part(slider.dataset.for);
  let moving = false;
  const follow = () => {
    const power = Math.log10(Number(field.value));
    // a slider that is being moved stays where it is: the rounded value would pull it back, and arrow keys would do nothing
    if (Number.isFinite(power) && !moving) slider.value = String(power);
    slider.setAttribute("aria-valuetext", field.value);
  };
  slider.addEventListener("input", () => {
    const value = 10 ** Number(slider.value);
    field.value = slider.dataset.for === "field-delta" ? value.toExponential(0) : String(Number(value.toPrecision(3)));
    slider.setAttribute("aria-valuetext", field.value);
    moving = true;
    field.dispatchEvent(new Event("input"));
    moving = false;
  });
  field.addEventListener("input", follow);
  slider.closest(".slider").hidden = false;
  follow();
}

// The planned guarantee follows the fields.
const plan = part("plan");
if (plan) {
  let waiting = 0;
  let asked = 0;
  const fields = ["field-epsilon", "field-delta"].map(part);
  const load = async () => {
    const mine = ++asked;
    const query = new URLSearchParams({ epsilon: fields[0].value, delta: fields[1].value });
    const answer = await fetch(`${plan.dataset.address}?${query}`);
    if (answer.ok && mine === asked) plan.innerHTML = await answer.text();
  };
  for (const field of fields) {
    field.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(load, 150);
    });
  }
}

// What runs is looked at again until it is over.
const away = part("away");
const follow = (element, inner, ended) => {
  const look = async () => {
    try {
      const answer = await fetch(element.dataset.address);
      if (answer.ok) {
        const text = await answer.text();
        if (text !== element.dataset.last) element.innerHTML = text;
        element.dataset.last = text;
      }
      if (away) away.hidden = true;
    } catch {
      // the app was stopped, or is starting again: say so, and look again later
      if (away) away.hidden = false;
    }
    const now = part(inner);
    if (now && ["done", "failed", "cancelled", "interrupted"].includes(now.dataset.state)) ended();
    else setTimeout(look, 500);
  };
  setTimeout(look, 300);
};
const live = part("live");
if (live && live.dataset.live) follow(live, "state", () => location.reload());
const simulation = part("simulation-part");
const simulated = part("simulation-state");
if (simulated && ["queued", "running"].includes(simulated.dataset.state)) follow(simulation, "simulation-state", () => {});

// Copy buttons.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(part(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}

// A file that is too large is refused before it is sent.
for (const form of document.querySelectorAll("form[data-most]")) {
  const input = form.querySelector("input[type=file]");
  input.addEventListener("change", () => {
    const large = input.files.length > 0 && input.files[0].size > Number(form.dataset.most);
    input.setCustomValidity(large ? "This file is larger than the app takes. Start the app with its folder and pick it there." : "");
    input.reportValidity();
  });
}

// A file is sent by itself, before the form that names it; the form then goes its usual way.
for (const button of document.querySelectorAll("[data-sends-file]")) {
  const form = button.form;
  const input = form.querySelector("input[type=file]");
  const alert = document.createElement("p");
  alert.className = "problem";
  alert.setAttribute("role", "alert");
  input.after(alert);
  let named = false;
  form.addEventListener("submit", async (event) => {
    if (event.submitter !== button || named || input.files.length === 0) return;
    event.preventDefault();
    const said = button.textContent;
    alert.textContent = "";
    button.disabled = true;
    button.textContent = "Sending the file";
    let problem = "The file could not be sent: is the app still running?";
    try {
      const answer = await fetch("/upload", {
        method: "POST",
        body: input.files[0],
        headers: { "X-Form-Token": form.elements.form_token.value },
      });
      const text = await answer.text();
      if (answer.ok) {
        const received = document.createElement("input");
        received.type = "hidden";
        received.name = "upload";
        received.value = text;
        form.append(received);
        problem = "";
      } else {
        problem = new DOMParser().parseFromString(text, "text/html").querySelector("main p").textContent;
      }
    } catch {
      // no answer: the problem is said below
    }
    button.disabled = false;
    button.textContent = said;
    alert.textContent = problem;
    if (problem) return;
    named = true;
    form.requestSubmit(button);
    named = false;
  });
}
