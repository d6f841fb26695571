// What transformers.js does with a saved tokenizer, run in the folder that holds node_modules. Reads questions and writes answers
// line by line, as support/stranger.py does. JavaScript has no offsets.
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const require = createRequire(join(process.cwd(), "package.json"));
const { AutoTokenizer, env } = require("@huggingface/transformers");
env.allowRemoteModels = false;

const digest = (row) => createHash("sha256").update(JSON.stringify(row)).digest("hex").slice(0, 16);

const questions = {
    encode(tokenizer, { texts, short }) {
        const rows = texts.map((text) => {
            const { input_ids } = tokenizer(text, { return_tensor: false });
            return [input_ids, input_ids.length ? tokenizer.decode(input_ids) : ""]; // it refuses to decode nothing
        });
        return short ? rows.map(digest) : rows;
    },

    use(tokenizer, { texts }) {
        const chat = texts.filter((text) => text.trim()).map((text) => ({ role: "user", content: text }));
        const ids = texts.map((text) => tokenizer.encode(text));
        const answer = {
            "one by one": ids,
            tokens: texts.map((text) => tokenizer.tokenize(text)),
            "without special tokens": ids.map((row) =>
                row.length ? tokenizer.decode(row, { skip_special_tokens: true }) : "",
            ),
            pair: tokenizer(texts[0], { text_pair: texts[1], return_tensor: false, return_token_type_ids: true }),
        };
        if (tokenizer.chat_template) {
            answer.chat = tokenizer.apply_chat_template(chat, { tokenize: false, add_generation_prompt: true });
        }
        return answer;
    },
};

const answer = async ({ ask, folder, ...rest }) =>
    questions[ask](await AutoTokenizer.from_pretrained(folder, { local_files_only: true }), rest);

for await (const line of createInterface({ input: process.stdin })) {
    let said;
    try {
        const answers = [];
        for (const question of JSON.parse(line)) answers.push(await answer(question));
        said = { answers };
    } catch (error) {
        said = { error: error.stack };
    }
    process.stdout.write(`${JSON.stringify(said)}\n`);
}
