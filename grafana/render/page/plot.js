// What graphs have in common that Grafana keeps in its plugins, not in its library.
import { ScaleDirection, ScaleOrientation } from '@grafana/schema';
import { UPlotConfigBuilder } from '@grafana/ui';

/** Formats a value with a unit's own suffix. */
export const withUnit = (field) => (value) => {
  const { text, suffix } = field.display(value);
  return text + (suffix ?? '');
};

/** A graph over time, still without its other axis. */
export function overTime(timeRange, theme) {
  const builder = new UPlotConfigBuilder('utc');
  builder.addScale({
    scaleKey: 'x',
    isTime: true,
    orientation: ScaleOrientation.Horizontal,
    direction: ScaleDirection.Right,
    range: () => [timeRange.from.valueOf(), timeRange.to.valueOf()],
  });
  builder.addAxis({ scaleKey: 'x', isTime: true, placement: 'bottom', timeZone: 'utc', theme });
  return builder;
}
