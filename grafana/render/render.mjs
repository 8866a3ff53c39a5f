// node render.mjs ANSWERS PICTURES: draws every *.json of the first folder into the second, in the
// Chromium that the environment names.
import { build } from 'esbuild';
import { chromium } from 'playwright-core';
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp from 'sharp';

const WIDTH = 1600;
const here = import.meta.dirname;
const [answers, pictures] = process.argv.slice(2);
const icons = join(here, 'node_modules/@grafana/ui/dist/public');

async function bundled(folder) {
  const outfile = join(folder, 'page.js');
  await build({
    entryPoints: [join(here, 'page/index.jsx')],
    bundle: true,
    outfile,
    format: 'iife',
    define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
    alias: { 'react-custom-scrollbars-2': join(here, 'page/scrollbars.js') },
    loader: { '.svg': 'dataurl', '.ttf': 'empty' },
    logLevel: 'error',
  });
  return Promise.all([outfile, join(folder, 'page.css')].map((path) => readFile(path, 'utf8')));
}

const PAGE = '<!doctype html><meta charset="utf-8"><body><div id="board"></div></body>';

async function draw(browser, [script, style], told, path) {
  const page = await browser.newPage({ viewport: { width: WIDTH + 32, height: 1000 } });
  const broken = new Promise((_, reject) => page.on('pageerror', reject));
  // Nothing is fetched from anywhere: the page, and icons from the library's folder.
  await page.route('**/*', async (route) => {
    const { pathname } = new URL(route.request().url());
    if (pathname === '/') {
      return route.fulfill({ body: PAGE, contentType: 'text/html' });
    }
    const icon = pathname.match(/\/(img\/icons\/.+\.svg)$/);
    return icon
      ? route.fulfill({ path: join(icons, icon[1]), contentType: 'image/svg+xml' })
      : route.abort();
  });
  await page.goto('http://boards.invalid/');
  await page.addStyleTag({ content: style });
  await page.addScriptTag({ content: script });
  await page.evaluate(([board, width]) => window.draw(board, width), [told, WIDTH]);
  await Promise.race([page.waitForFunction(() => window.drawn), broken]);
  const picture = await page.locator('#board').screenshot();
  // 256 colours are enough, and a third of the bytes.
  await sharp(picture).png({ palette: true, effort: 10 }).toFile(path);
  await page.close();
}

const folder = await mkdtemp(join(tmpdir(), 'boards-'));
try {
  const bundle = await bundled(folder);
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ['--no-sandbox', '--font-render-hinting=none'],
  });
  for (const name of (await readdir(answers)).filter((one) => one.endsWith('.json'))) {
    const told = JSON.parse(await readFile(join(answers, name), 'utf8'));
    await draw(browser, bundle, told, join(pictures, name.replace('.json', '.png')));
  }
  await browser.close();
} finally {
  await rm(folder, { recursive: true });
}
