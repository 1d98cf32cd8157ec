"use strict";
const SHOWN = 20; // labels
const state = document.getElementById("state");
const answer = document.getElementById("answer");
const first = document.getElementById("text");
const second = document.getElementById("text_pair");

// library.js and model.js hold files as base64 of their gzip: a page that was opened as a file cannot read others.
async function unpack(name) {
  const text = atob(packed[name]);
  const bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place++) bytes[place] = text.charCodeAt(place);
  delete packed[name];
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

async function unpackJson(name) {
  return JSON.parse(new TextDecoder().decode(await unpack(name)));
}

async function unpackModule(name) {
  return import(URL.createObjectURL(new Blob([await unpack(name)], { type: "text/javascript" })));
}

async function openModel() {
  const ort = await unpackModule("onnxruntime.mjs");
  const { Tokenizer } = await unpackModule("tokenizers.mjs");
  ort.env.wasm.wasmBinary = await unpack("onnxruntime.wasm");
  ort.env.wasm.numThreads = 1;
  const { graph } = await unpackJson("config.json");
  const settings = await unpackJson("tokenizer_config.json");
  const tokenizer = new Tokenizer(plainText(await unpackJson("tokenizer.json")), settings);
  const session = await ort.InferenceSession.create(new Uint8Array(await unpack("model.onnx")));
  // Texts in several windows are told by all of them, and this page reads one.
  const canTell = "{{ novelty_file }}" in packed && graph.windows === null;
  const known = canTell ? arraysOf(await unpack("{{ novelty_file }}"), ["whitening", "means", "held_out"]) : null;
  const linear = graph.linear ? linearModelOf(await unpackJson("linear.json"), await unpack("linear.safetensors")) : null;
  return { ort, graph, tokenizer, session, known, linear, unknown: tokenizer.token_to_id(settings.unk_token) };
}

// Return the arrays of a file of safetensors by their names: a header's length in 8 bytes, the header in JSON, and the numbers.
function arraysOf(content, names) {
  const start = 8 + Number(new DataView(content).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(content.slice(8, start)));
  const arrays = {};
  for (const name of names) {
    const [from, to] = header[name].data_offsets;
    const numbers = content.slice(start + from, start + to);
    arrays[name] = header[name].dtype === "F16" ? Float32Array.from(new Uint16Array(numbers), ofHalf) : new Float32Array(numbers);
  }
  return arrays;
}

// Return the number that 16 bits stand for: a sign, five bits of an exponent, and ten of a fraction.
function ofHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = (bits & 0x3ff) / 1024;
  return sign * (exponent === 0 ? fraction * 2 ** -14 : (1 + fraction) * 2 ** (exponent - 15));
}

// Return whether a text with this vector is unlike the training texts: further from the nearest class than 19 in 20 of those.
function isUnlikeTraining({ whitening, means, held_out }, vector) {
  const width = vector.length;
  const whitened = new Float64Array(width);
  for (let from = 0; from < width; from++) {
    for (let to = 0; to < width; to++) whitened[to] += vector[from] * whitening[from * width + to];
  }
  let nearest = Infinity;
  for (let start = 0; start < means.length; start += width) {
    const distance = whitened.reduce((sum, value, place) => sum + (value - means[start + place]) ** 2, 0);
    nearest = Math.min(nearest, distance);
  }
  return nearest > held_out[Math.round(0.95 * (held_out.length - 1))];
}

// Let "[MASK]" in a text be text: remove what makes it a special token there.
function plainText(tokenizer) {
  const vocabulary = tokenizer.model.vocab;
  const added = tokenizer.added_tokens.filter((token) => !token.special || !(token.content in vocabulary));
  return { ...tokenizer, added_tokens: added };
}

// Return ids and segments with the special tokens, truncated inside of them as in training.
function encode({ graph, tokenizer }, text, pair) {
  const settings = { add_special_tokens: true, return_token_type_ids: true };
  const whole = tokenizer.encode(text, pair === null ? settings : { ...settings, text_pair: pair });
  const segments = whole.token_type_ids ?? whole.ids.map(() => 0);
  const lengthOf = (part) => tokenizer.encode(part, { add_special_tokens: false }).ids.length;
  const lengths = [lengthOf(text), pair === null ? 0 : lengthOf(pair)];
  const kept = [...lengths];
  const room = graph.max_length - (whole.ids.length - lengths[0] - lengths[1]);
  while (kept[0] + kept[1] > room) kept[kept[0] > kept[1] ? 0 : 1]--;
  // the first special token, the first text, those between, the second text, those at the end
  const secondStart = whole.ids.length - 1 - lengths[1];
  const isKept = (_, place) => {
    const inFirst = place >= 1 && place < 1 + lengths[0];
    const inSecond = pair !== null && place >= secondStart && place < secondStart + lengths[1];
    if (inFirst) return place < 1 + kept[0];
    return !inSecond || place < secondStart + kept[1];
  };
  return { ids: whole.ids.filter(isKept), segments: segments.filter(isKept), isTruncated: kept[0] + kept[1] < lengths[0] + lengths[1] };
}

// Return the outputs of the graph: the logits under the name in graph.answer, and perhaps the vectors that its head reads.
async function outputsOf(model, { ids, segments }) {
  const rows = { input_ids: ids, attention_mask: ids.map(() => 1), token_type_ids: segments };
  const inputs = {};
  for (const name of model.graph.inputs) {
    inputs[name] = new model.ort.Tensor("int64", BigInt64Array.from(rows[name], BigInt), [1, ids.length]);
  }
  return model.session.run(inputs);
}

async function logitsOf(model, row) {
  const outputs = await outputsOf(model, row);
  return Array.from(outputs[model.graph.answer].data);
}

// Return the probability of each label, and the labels that are predicted.
function predictionOf(graph, logits) {
  const labels = Object.values(graph.id2label);
  const isSet = graph.problem_type === "multi_label_classification";
  const largest = Math.max(...logits);
  const odds = logits.map((logit) => Math.exp(logit - largest));
  const total = odds.reduce((sum, one) => sum + one, 0);
  const chances = logits.map((logit, place) => (isSet ? 1 / (1 + Math.exp(-logit)) : odds[place] / total));
  const thresholds = graph.thresholds ?? {};
  let predicted = labels.filter((label, place) => label in thresholds && chances[place] >= thresholds[label]);
  if (!isSet && predicted.length === 0) {
    // no threshold is reached: the likeliest label without one, if there is any
    const others = labels.filter((label) => !(label in thresholds));
    predicted = others.length > 0 ? others : labels;
  }
  if (!isSet) {
    const ratioOf = (label) => chances[labels.indexOf(label)] / Math.max(thresholds[label] ?? 1, 1e-300);
    predicted = [predicted.reduce((best, label) => (ratioOf(label) > ratioOf(best) ? label : best))];
  }
  return { labels, chances, predicted };
}

function made(tag, className, content) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (content !== undefined) node.textContent = content;
  return node;
}

function percentage(chance) {
  return (100 * chance).toFixed(1) + "%";
}

function bars(graph, logits) {
  if (graph.problem_type === "regression") return [made("div", "headline", logits[0].toPrecision(6))];
  const { labels, chances, predicted } = predictionOf(graph, logits);
  const order = labels.map((_, place) => place).sort((a, b) => chances[b] - chances[a]);
  const nodes = order.slice(0, SHOWN).map((place) => {
    const row = made("div", predicted.includes(labels[place]) ? "bar best" : "bar");
    const track = made("div", "track");
    const fill = made("div", "fill");
    const percent = percentage(chances[place]);
    fill.style.width = percent;
    track.append(fill);
    row.append(made("div", "name", labels[place]), track, made("div", "chance", percent));
    return row;
  });
  if (labels.length > SHOWN) nodes.push(made("p", "quiet", `and ${labels.length - SHOWN} less probable classes`));
  return [made("div", "headline", predicted.join(", ") || "no label"), ...nodes];
}

let isBusy = false;
let isWaiting = false;

// Return what is shown for the texts, and whether part of them is left out; nothing for blank ones.
async function answerTo(model, text, pair) {
  if (!text.trim() || (pair !== null && !pair.trim())) return { nodes: [], isTruncated: false };
  if (model.graph.answers_for === "words") {
    const row = encodeWords(model, text);
    if (row.words.length === 0) return { nodes: [], isTruncated: false };
    const predictions = labelsOfWords(model.graph, await logitsOf(model, row), row.places);
    return { nodes: tags(model.graph, row.words, predictions), isTruncated: row.isTruncated };
  }
  const row = encode(model, text, pair);
  const outputs = await outputsOf(model, row);
  let logits = Array.from(outputs[model.graph.answer].data);
  if (model.linear !== null) logits = pooledWith(model.linear, logits, text, pair);
  const nodes = bars(model.graph, logits);
  if (model.known !== null && isUnlikeTraining(model.known, outputs.vectors.data)) {
    const note = "This text is unlike those that the model was trained on, so perhaps no label fits. One in 20 similar texts gets this note too.";
    nodes.splice(1, 0, made("p", "bad", note));
  }
  return { nodes, isTruncated: row.isTruncated };
}

// Classify what stands in the fields; if they change meanwhile, once more.
async function classify(model) {
  isWaiting = isBusy;
  if (isBusy) return;
  isBusy = true;
  try {
    const { nodes, isTruncated } = await answerTo(model, first.value, second === null ? null : second.value);
    answer.replaceChildren(...nodes);
    const truncated = `The model reads ${model.graph.max_length} tokens; the rest is left out.`;
    state.textContent = isTruncated ? truncated : "";
  } catch (error) {
    fail(error);
  }
  isBusy = false;
  if (isWaiting) classify(model);
}

function fail(error) {
  state.className = "bad";
  state.textContent = `This does not work here: ${error.message}`;
}

openModel().then((model) => {
  for (const field of [first, second]) field?.addEventListener("input", () => classify(model));
  document.body.dataset.ready = "true";
  classify(model);
}, fail);
