// A board: heading, variables, rows of panels, on Grafana's grid.
import React from 'react';
import { PanelChrome } from '@grafana/ui';
import { Bars } from './bars.jsx';
import { prepared } from './fields.js';
import { framesOf } from './frames.js';
import { GRAPH_DEFAULTS, Graph } from './graph.jsx';
import { Heatmap } from './heatmap.jsx';
import { Stat } from './stat.jsx';
import { Rows, TABLE_DEFAULTS } from './table.jsx';

// Grafana's grid: 24 columns, cells of 30 pixels with 8 between them.
const CELL = 30;
const GAP = 8;
const KINDS = { timeseries: Graph, stat: Stat, table: Rows, heatmap: Heatmap, barchart: Bars };
const CUSTOM = { timeseries: GRAPH_DEFAULTS, table: TABLE_DEFAULTS, barchart: { hideFrom: {} } };

/** The frames of every panel, by its id. */
export async function load({ board, answers, start, end, step }, theme) {
  const grid = [];
  for (let time = start; time <= end; time += step) {
    grid.push(time);
  }
  const drawn = board.panels.filter(({ type }) => type !== 'row');
  const entries = drawn.map(async (panel) => [
    panel.id,
    await prepared(panel, framesOf(panel, answers[panel.id], grid), theme, CUSTOM[panel.type]),
  ]);
  return Object.fromEntries(await Promise.all(entries));
}

export function Board({ told, frames, timeRange, theme, width }) {
  const { board } = told;
  const column = (width + GAP) / 24;
  const bottom = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  return (
    <div style={{ width: width + 32, padding: 16 }}>
      <Head board={board} timeRange={timeRange} theme={theme} />
      <div style={{ position: 'relative', height: bottom * (CELL + GAP) }}>
        {board.panels.map((panel) => {
          const { x, y, w, h } = panel.gridPos;
          const box = {
            position: 'absolute',
            left: x * column,
            top: y * (CELL + GAP),
            width: w * column - GAP,
            height: h * (CELL + GAP) - GAP,
          };
          return (
            <div key={panel.id} style={box}>
              {panel.type === 'row' ? (
                <RowTitle panel={panel} theme={theme} />
              ) : (
                <Panel
                  panel={panel}
                  told={told}
                  frames={frames[panel.id]}
                  timeRange={timeRange}
                  theme={theme}
                  box={box}
                />
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function RowTitle({ panel, theme }) {
  return <div style={{ ...theme.typography.h5, paddingTop: 6 }}>⌄ {panel.title}</div>;
}

function Panel({ panel, told, frames, timeRange, theme, box }) {
  const Kind = KINDS[panel.type];
  const empty = !frames.some((frame) => frame.length > 0 && frame.fields.length > 1);
  return (
    <PanelChrome
      title={panel.title}
      description={panel.description}
      width={box.width}
      height={box.height}
    >
      {(width, height) =>
        empty ? (
          <Empty
            text={panel.fieldConfig.defaults.noValue}
            width={width}
            height={height}
            theme={theme}
          />
        ) : (
          <Kind
            panel={panel}
            frames={frames}
            answers={told.answers[panel.id]}
            step={told.step}
            marks={told.marks}
            timeRange={timeRange}
            theme={theme}
            width={width}
            height={height}
          />
        )
      }
    </PanelChrome>
  );
}

function Empty({ text, width, height, theme }) {
  const style = {
    width,
    height,
    display: 'grid',
    placeItems: 'center',
    color: theme.colors.text.secondary,
  };
  return <div style={style}>{text ?? 'No data'}</div>;
}

function Head({ board, timeRange, theme }) {
  const clock = (time) => time.utc().format('YYYY-MM-DD HH:mm:ss');
  const chip = {
    border: `1px solid ${theme.colors.border.medium}`,
    borderRadius: 2,
    padding: '4px 8px',
    fontSize: 12,
  };
  return (
    <div style={{ display: 'flex', alignItems: 'center', gap: 8, marginBottom: 12 }}>
      <div style={{ ...theme.typography.h4, margin: 0, marginRight: 16 }}>{board.title}</div>
      {board.templating.list
        .filter(({ type }) => type === 'query')
        .map(({ name, label }) => (
          <div key={name} style={chip}>
            <span style={{ color: theme.colors.text.secondary }}>{label}</span> All
          </div>
        ))}
      <div style={{ flex: 1 }} />
      <div style={chip}>
        {clock(timeRange.from)} to {clock(timeRange.to)} UTC
      </div>
    </div>
  );
}
