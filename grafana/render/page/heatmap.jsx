// Panels of type heatmap. Grafana's library has no such component: the axes and the canvas are its
// own, the cells are drawn here as its plugin does: one row for each bucket, all of one height.
import React from 'react';
import { formattedValueToString, getValueFormat } from '@grafana/data';
import { ScaleDirection, ScaleOrientation } from '@grafana/schema';
import { UPlotChart } from '@grafana/ui';
import { interpolateOranges } from 'd3-scale-chromatic';
import { drawMarks } from './marks.jsx';
import { overTime } from './plot.js';

const LEGEND_HEIGHT = 24;

export function Heatmap({ panel, frames, marks, timeRange, theme, width, height }) {
  const { builder, most } = React.useMemo(
    () => configured(panel, frames[0], marks, timeRange, theme),
    [panel, width, height]
  );
  const [time, ...buckets] = frames[0].fields.map((field) => field.values);
  return (
    <div>
      <UPlotChart
        config={builder}
        data={[time, ...buckets]}
        width={width}
        height={height - LEGEND_HEIGHT}
        timeRange={timeRange}
      />
      <Scale most={most} color={colorOf(panel, most)} />
    </div>
  );
}

/** In a dark theme more is brighter. */
function colorOf({ options: { color } }, most) {
  return (count) => interpolateOranges(1 - (count / most) ** color.exponent);
}

function configured(panel, frame, marks, timeRange, theme) {
  const [time, ...buckets] = frame.fields;
  const most = Math.max(...buckets.flatMap((bucket) => bucket.values).filter(Number.isFinite));
  const builder = overTime(timeRange, theme);
  builder.addScale({
    scaleKey: 'y',
    orientation: ScaleOrientation.Vertical,
    direction: ScaleDirection.Up,
    range: () => [0, buckets.length],
  });
  builder.addAxis({
    scaleKey: 'y',
    placement: 'left',
    theme,
    splits: () => buckets.map((_, index) => index + 1).filter(spaced(buckets.length)),
    values: (_, splits) => splits.map((index) => bound(panel, buckets[index - 1].name)),
    grid: { show: false },
  });
  buckets.forEach(() =>
    builder.addSeries({
      scaleKey: 'y',
      theme,
      pathBuilder: () => null,
      show: true,
      pointsFilter: () => [],
      drawStyle: 'points',
      showPoints: 'never',
      lineColor: 'transparent',
    })
  );
  drawCells(builder, time.values, buckets, colorOf(panel, most));
  drawMarks(builder, marks, theme);
  return { builder, most };
}

const spaced = (rows) => (index) => index % Math.ceil(rows / 8) === 0;

function bound({ options }, le) {
  return le === '+Inf' ? le : formatted(options.yAxis.unit, Number(le));
}

const formatted = (unit, value) => formattedValueToString(getValueFormat(unit)(value));

function drawCells(builder, times, buckets, color) {
  const step = times[1] - times[0];
  builder.addHook('drawClear', (plot) => {
    const { ctx } = plot;
    ctx.save();
    buckets.forEach(({ values }, row) => {
      const top = Math.round(plot.valToPos(row + 1, 'y', true));
      const bottom = Math.round(plot.valToPos(row, 'y', true));
      values.forEach((count, index) => {
        if (count > 1e-9) {
          const left = Math.round(plot.valToPos(times[index] - step, 'x', true));
          const right = Math.round(plot.valToPos(times[index], 'x', true));
          ctx.fillStyle = color(count);
          ctx.fillRect(Math.max(left, plot.bbox.left), top, right - left, bottom - top);
        }
      });
    });
    ctx.restore();
  });
}

function Scale({ most, color }) {
  const shades = Array.from({ length: 64 }, (_, index) => color(((index + 1) / 64) * most));
  return (
    <div
      style={{ display: 'flex', height: LEGEND_HEIGHT, alignItems: 'center', gap: 6, fontSize: 11 }}
    >
      <span>0</span>
      <div
        style={{ width: 160, height: 8, background: `linear-gradient(90deg, ${shades.join()})` }}
      />
      <span>{formatted('short', most)}</span>
    </div>
  );
}
