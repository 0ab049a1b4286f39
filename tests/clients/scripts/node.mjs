// One question through an official JavaScript SDK: node node.mjs CLIENT text|stream|tool. Prints {"text": …}.
import { createRequire } from "node:module";
const require = createRequire(process.cwd() + "/");
const [client, mode] = process.argv.slice(2);
const { URL: url, KEY: apiKey } = process.env;
const model = "any-model";
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = ({ city }) => `pineapple weather in ${city}`;

const clients = {
  async chat() {
    const OpenAI = require("openai").default;
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
    const messages = [{ role: "user", content: "What is the weather in Bern?" }];
    if (mode === "stream") {
      let text = "";
      const stream = await openai.chat.completions.create({ model, messages, stream: true });
      for await (const chunk of stream) text += chunk.choices[0].delta.content ?? "";
      return text;
    }
    const tools = [{ type: "function", function: { name: "weather", parameters: schema } }];
    const ask = () => openai.chat.completions.create({ model, messages, ...(mode === "tool" ? { tools } : {}) });
    let message = (await ask()).choices[0].message;
    if (mode === "tool") {
      messages.push(message);
      for (const call of message.tool_calls) {
        const content = weather(JSON.parse(call.function.arguments));
        messages.push({ role: "tool", tool_call_id: call.id, content });
      }
      message = (await ask()).choices[0].message;
    }
    return message.content;
  },
  async responses() {
    const OpenAI = require("openai").default;
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
    let input = [{ role: "user", content: "What is the weather in Bern?" }];
    if (mode === "stream") {
      const stream = openai.responses.stream({ model, input });
      return (await stream.finalResponse()).output_text;
    }
    const tools = [{ type: "function", name: "weather", parameters: schema, strict: false }];
    const ask = () => openai.responses.create({ model, input, ...(mode === "tool" ? { tools } : {}) });
    let response = await ask();
    if (mode === "tool") {
      input = [...input, ...response.output];
      for (const item of response.output.filter((one) => one.type === "function_call")) {
        const output = weather(JSON.parse(item.arguments));
        input.push({ type: "function_call_output", call_id: item.call_id, output });
      }
      response = await ask();
    }
    return response.output_text;
  },
  async messages() {
    const Anthropic = require("@anthropic-ai/sdk").default;
    const anthropic = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
    const messages = [{ role: "user", content: "What is the weather in Bern?" }];
    const tools = [{ name: "weather", input_schema: schema }];
    const asked = () => ({ model, max_tokens: 500, messages, ...(mode === "tool" ? { tools } : {}) });
    if (mode === "stream") return await anthropic.messages.stream(asked()).finalText();
    let message = await anthropic.messages.create(asked());
    if (mode === "tool") {
      const results = message.content
        .filter((block) => block.type === "tool_use")
        .map((block) => ({ type: "tool_result", tool_use_id: block.id, content: weather(block.input) }));
      messages.push({ role: "assistant", content: message.content }, { role: "user", content: results });
      message = await anthropic.messages.create(asked());
    }
    return message.content.map((block) => block.text ?? "").join("");
  },
  async gemini() {
    const { GoogleGenAI } = require("@google/genai");
    const google = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } });
    const contents = [{ role: "user", parts: [{ text: "What is the weather in Bern?" }] }];
    const tools = [{ functionDeclarations: [{ name: "weather", parametersJsonSchema: schema }] }];
    const asked = () => ({ model, contents, config: mode === "tool" ? { tools } : {} });
    if (mode === "stream") {
      let text = "";
      for await (const chunk of await google.models.generateContentStream(asked())) text += chunk.text ?? "";
      return text;
    }
    let response = await google.models.generateContent(asked());
    if (mode === "tool") {
      const parts = response.functionCalls.map(({ id, name, args }) => ({
        functionResponse: { id, name, response: { output: weather(args) } },
      }));
      contents.push(response.candidates[0].content, { role: "user", parts });
      response = await google.models.generateContent(asked());
    }
    return response.text;
  },
};

console.log(JSON.stringify({ text: await clients[client]() }));
