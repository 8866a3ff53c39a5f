// Panels of type barchart. Grafana's library has no such component: axes, bars and the legend are
// its own, put together here as its plugin does.
import React from 'react';
import { FieldType, getFieldDisplayName, getFieldSeriesColor } from '@grafana/data';
import { ScaleDirection, ScaleOrientation } from '@grafana/schema';
import { PlotLegend, UPlotChart, UPlotConfigBuilder, VizLayout } from '@grafana/ui';
import uPlot from 'uplot';
import { withUnit } from './plot.js';

export function Bars({ panel, frames, timeRange, theme, width, height }) {
  const [frame] = frames;
  const names = frame.fields.find(
    (field) => getFieldDisplayName(field, frame) === panel.options.xField
  );
  const fields = frame.fields.filter((field) => field.type === FieldType.number);
  const builder = React.useMemo(
    () => configured(panel, frame, names, fields, theme),
    [panel, width, height]
  );
  const data = [names.values.map((_, index) => index), ...fields.map((field) => field.values)];
  return (
    <VizLayout
      width={width}
      height={height}
      legend={
        <PlotLegend
          data={frames}
          config={builder}
          placement="bottom"
          displayMode="list"
          calcs={[]}
        />
      }
    >
      {(plotWidth, plotHeight) => (
        <UPlotChart
          config={builder}
          data={data}
          width={plotWidth}
          height={plotHeight}
          timeRange={timeRange}
        />
      )}
    </VizLayout>
  );
}

function configured(panel, frame, names, fields, theme) {
  const builder = new UPlotConfigBuilder('utc');
  builder.addScale({
    scaleKey: 'x',
    orientation: ScaleOrientation.Horizontal,
    direction: ScaleDirection.Right,
    range: () => [-0.5, names.values.length - 0.5],
  });
  builder.addScale({
    scaleKey: 'y',
    orientation: ScaleOrientation.Vertical,
    direction: ScaleDirection.Up,
    min: 0,
    softMax: threshold(panel)?.value,
  });
  builder.addAxis({
    scaleKey: 'x',
    placement: 'bottom',
    theme,
    label: panel.options.xField,
    grid: { show: false },
    splits: () => names.values.map((_, index) => index),
    values: () => names.values,
  });
  builder.addAxis({ scaleKey: 'y', placement: 'left', theme, formatValue: withUnit(fields[0]) });
  fields.forEach((field, index) => addBars(builder, frame, field, index, fields.length, theme));
  addThreshold(builder, panel, theme);
  return builder;
}

function addBars(builder, frame, field, index, count, theme) {
  const { color } = getFieldSeriesColor(field, theme);
  // uPlot takes shares of the plot's width: each class has the same, bars fill 0.8 of it.
  const one = (plot) => 1 / plot.data[0].length;
  builder.addSeries({
    scaleKey: 'y',
    theme,
    drawStyle: 'bars',
    lineColor: color,
    fillColor: color,
    fillOpacity: 70,
    lineWidth: 1,
    showPoints: 'never',
    pathBuilder: uPlot.paths.bars({
      disp: {
        x0: {
          unit: 2,
          values: (plot) =>
            plot.data[0].map((at) => (at + 0.1 + (0.8 * index) / count) * one(plot)),
        },
        size: {
          unit: 2,
          values: (plot) => plot.data[0].map(() => ((0.9 * 0.8) / count) * one(plot)),
        },
      },
    }),
    dataFrameFieldIndex: { frameIndex: 0, fieldIndex: frame.fields.indexOf(field) },
    colorMode: undefined,
    label: getFieldDisplayName(field, frame),
  });
}

const threshold = (panel) => {
  const { thresholds, custom } = panel.fieldConfig.defaults;
  return custom?.thresholdsStyle ? thresholds.steps.at(-1) : undefined;
};

function addThreshold(builder, panel, theme) {
  const step = threshold(panel);
  if (step) {
    const { thresholds } = panel.fieldConfig.defaults;
    builder.addThresholds({
      config: panel.fieldConfig.defaults.custom.thresholdsStyle,
      thresholds,
      scaleKey: 'y',
      theme,
      hardMin: 0,
    });
  }
}
