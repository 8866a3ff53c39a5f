// Panels of type timeseries: Grafana's TimeSeries component.
import React from 'react';
import { TimeSeries } from '@grafana/ui';
import { drawMarks } from './marks.jsx';

export const GRAPH_DEFAULTS = {
  drawStyle: 'line',
  lineInterpolation: 'linear',
  lineWidth: 1,
  fillOpacity: 0,
  gradientMode: 'none',
  showPoints: 'auto',
  pointSize: 5,
  spanNulls: false,
  axisPlacement: 'auto',
  axisLabel: '',
  axisColorMode: 'text',
  axisBorderShow: false,
  axisGridShow: true,
  scaleDistribution: { type: 'linear' },
  axisCenteredZero: false,
  hideFrom: { tooltip: false, viz: false, legend: false },
  stacking: { mode: 'none', group: 'A' },
  thresholdsStyle: { mode: 'off' },
};

function Marks({ builder, marks, exemplars, theme }) {
  React.useLayoutEffect(() => {
    drawMarks(builder, marks, theme);
    drawExemplars(builder, exemplars, theme);
  }, [builder]);
  return null;
}

/** Diamonds at single requests. */
function drawExemplars(builder, exemplars, theme) {
  builder.addHook('draw', (plot) => {
    const { scale } = plot.series[1];
    const { ctx } = plot;
    ctx.save();
    ctx.fillStyle = theme.visualization.getColorByName('blue');
    for (const { timestamp, value } of exemplars) {
      const x = plot.valToPos(timestamp * 1000, 'x', true);
      const y = plot.valToPos(Number(value), scale, true);
      ctx.beginPath();
      for (const [dx, dy] of [
        [0, -5],
        [5, 0],
        [0, 5],
        [-5, 0],
      ]) {
        ctx.lineTo(x + dx, y + dy);
      }
      ctx.fill();
    }
    ctx.restore();
  });
}

/** Far fewer than there are, as the data source has it: none close to a greater one of its moment. */
function thinned(exemplars, step) {
  const values = exemplars.map(({ value }) => Number(value));
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const deviation = Math.sqrt(
    values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length
  );
  const last = new Map();
  return [...exemplars]
    .sort((a, b) => b.value - a.value)
    .filter(({ timestamp, value }) => {
      const moment = Math.floor(timestamp / step);
      const kept = !last.has(moment) || last.get(moment) - value >= 2 * deviation;
      if (kept) {
        last.set(moment, value);
      }
      return kept;
    });
}

export function Graph({ panel, frames, answers, step, marks, timeRange, theme, width, height }) {
  const all = answers.flatMap((one) => (one.exemplars ?? []).flatMap((series) => series.exemplars));
  const exemplars = thinned(all, step);
  return (
    <TimeSeries
      frames={frames}
      timeRange={timeRange}
      timeZone="utc"
      width={width}
      height={height}
      legend={panel.options.legend}
      options={panel.options}
    >
      {(builder) => <Marks builder={builder} marks={marks} exemplars={exemplars} theme={theme} />}
    </TimeSeries>
  );
}
