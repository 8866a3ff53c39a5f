// node types.mjs BOARD...: has the compiler check boards against the types of Grafana's schema.
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

// In JSON an enumeration's member is its text; the choice of a variable is left open; what a mark is
// asked with is the data source's own affair.
const TYPES = `import type { AnnotationQuery, Dashboard } from '@grafana/schema';
type Json<T> = T extends string
  ? \`\${T}\`
  : T extends object
    ? { [K in keyof T]: K extends 'current' ? object : Json<T[K]> }
    : T;
type Mark = Json<AnnotationQuery> & Record<string, unknown>;
type Board = Json<Omit<Dashboard, 'annotations'>> & { annotations: { list: Mark[] } };
`;
const here = import.meta.dirname;
const folder = await mkdtemp(join(here, '.types-'));
try {
  const boards = await Promise.all(
    process.argv.slice(2).map(async (path, index) => {
      const literal = await readFile(path, 'utf8');
      return `export const board${index} = ${literal.trim()} satisfies Board;\n`;
    })
  );
  const file = join(folder, 'boards.ts');
  await writeFile(file, TYPES + boards.join(''));
  const { status } = spawnSync(
    process.execPath,
    [
      join(here, 'node_modules/typescript/bin/tsc'),
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      '--module',
      'nodenext',
      '--moduleResolution',
      'nodenext',
      '--target',
      'es2022',
      file,
    ],
    { stdio: 'inherit' }
  );
  process.exitCode = status;
} finally {
  await rm(folder, { recursive: true });
}
