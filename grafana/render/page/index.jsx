// Draws the board that `window.told` holds, then sets `window.drawn`.
import 'uplot/dist/uPlot.min.css';
import React from 'react';
import { createRoot } from 'react-dom/client';
import { ThemeContext, createTheme, dateTime } from '@grafana/data';
import { GlobalStyles, PanelContextProvider } from '@grafana/ui';
import { Board, load } from './board.jsx';

window.__grafana_public_path__ = '/public/';

const theme = createTheme({ colors: { mode: 'dark' } });

async function draw(told, width) {
  const from = dateTime(told.start * 1000);
  const to = dateTime(told.end * 1000);
  const timeRange = { from, to, raw: { from, to } };
  const frames = await load(told, theme);
  const context = { eventBus: silent, canExecuteActions: () => false };
  createRoot(document.getElementById('board')).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <PanelContextProvider value={context}>
        <Board told={told} frames={frames} timeRange={timeRange} theme={theme} width={width} />
      </PanelContextProvider>
    </ThemeContext.Provider>
  );
  await document.fonts.ready;
  setTimeout(() => {
    window.drawn = true;
  }, 1500);
}

const silent = {
  publish() {},
  getStream: () => ({
    subscribe: () => ({ unsubscribe() {} }),
    pipe() {
      return this;
    },
  }),
  subscribe: () => ({ unsubscribe() {} }),
  removeAllListeners() {},
  newScopedBus() {
    return this;
  },
};

window.draw = draw;
