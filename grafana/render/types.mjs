// node types.mjs BOARD...: has the compiler check boards against the types of Grafana's schema, of the
// oldest version that they are for, of the one that draws the pictures and of the newest.
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const SCHEMAS = ['schema-10', '@grafana/schema', 'schema-13'];
// In JSON an enumeration's member is its text; the choice of a variable is left open; what a mark is
// asked with is the data source's own affair.
const types = (schema) => `import type { AnnotationQuery, Dashboard } from '${schema}';
type Json<T> = T extends string
  ? \`\${T}\`
  : T extends object
    ? { [K in keyof T]: K extends 'current' ? object : Json<T[K]> }
    : T;
type Mark = Json<AnnotationQuery> & Record<string, unknown>;
type Board = Json<Omit<Dashboard, 'annotations'>> & { annotations: { list: Mark[] } };
`;
const STRICTLY = '--noEmit --strict --skipLibCheck --target es2022'.split(' ');
const MODULES = '--module nodenext --moduleResolution nodenext'.split(' ');

const here = import.meta.dirname;
const folder = await mkdtemp(join(here, '.types-'));
try {
  const paths = process.argv.slice(2);
  const literals = await Promise.all(paths.map((path) => readFile(path, 'utf8')));
  const boards = literals.map(
    (literal, index) => `export const board${index} = ${literal.trim()} satisfies Board;\n`
  );
  const files = SCHEMAS.map((_, index) => join(folder, `boards${index}.ts`));
  await Promise.all(
    files.map((file, index) => writeFile(file, types(SCHEMAS[index]) + boards.join('')))
  );
  const compiler = join(here, 'node_modules/typescript/bin/tsc');
  const { status } = spawnSync(process.execPath, [compiler, ...STRICTLY, ...MODULES, ...files], {
    stdio: 'inherit',
  });
  process.exitCode = status;
} finally {
  await rm(folder, { recursive: true });
}
