// Answers of Prometheus as the data frames that Grafana's own data source makes of them.
import { FieldType, createDataFrame, renderLegendFormat } from '@grafana/data';

const number = (text) => {
  const value = Number(text);
  return Number.isNaN(value) ? null : value; // NaN of Prometheus, "+Inf" stays infinite
};

const parsed = (text) => (text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : number(text));

/** Frames of one panel: `answers` are its queries with their series, times are seconds. */
export function framesOf(panel, answers, grid) {
  if (panel.type === 'heatmap') {
    return heatmapFrames(answers[0], grid);
  }
  return answers.flatMap(({ target, series }) =>
    target.format === 'table'
      ? tableFrame(target, series, answers.length > 1)
      : series.map((one) => lineFrame(target, one, grid))
  );
}

function lineFrame(target, { metric, values }, grid) {
  const byTime = new Map(values.map(([time, text]) => [time, parsed(text)]));
  const name = target.legendFormat ? renderLegendFormat(target.legendFormat, metric) : undefined;
  return createDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: grid.map((time) => time * 1000) },
      {
        name: 'Value',
        type: FieldType.number,
        labels: metric,
        // A missing sample is a gap.
        values: grid.map((time) => byTime.get(time) ?? null),
        config: name ? { displayNameFromDS: name } : {},
      },
    ],
  });
}

function tableFrame(target, series, oneOfSeveral) {
  const labels = [...new Set(series.flatMap(({ metric }) => Object.keys(metric)))].sort();
  if (!series.length) {
    return [];
  }
  return createDataFrame({
    refId: target.refId,
    fields: [
      {
        name: 'Time',
        type: FieldType.time,
        values: series.map(({ value }) => value[0] * 1000),
      },
      ...labels.map((name) => ({
        name,
        type: FieldType.string,
        values: series.map(({ metric }) => metric[name] ?? ''),
      })),
      {
        name: oneOfSeveral ? `Value #${target.refId}` : 'Value',
        type: FieldType.number,
        values: series.map(({ value }) => parsed(value[1])),
      },
    ],
  });
}

/** One frame: a field for each bucket, named by its upper bound, holding what fell into it. */
function heatmapFrames({ target, series }, grid) {
  const sorted = [...series].sort((a, b) => parsed(a.metric.le) - parsed(b.metric.le));
  const columns = sorted.map((one) => lineFrame(target, one, grid).fields[1].values);
  if (!columns.some((column) => column.some((value) => value > 0))) {
    return [];
  }
  const fields = sorted.map(({ metric }, index) => ({
    name: metric.le,
    type: FieldType.number,
    values: columns[index].map((value, place) =>
      value === null ? null : Math.max(0, value - (columns[index - 1]?.[place] ?? 0))
    ),
  }));
  const time = { name: 'Time', type: FieldType.time, values: grid.map((at) => at * 1000) };
  return [createDataFrame({ refId: target.refId, fields: [time, ...fields] })];
}
