// Transformations, units, thresholds and overrides of a panel, applied by Grafana's own code.
import {
  FieldConfigOptionsRegistry,
  applyFieldOverrides,
  standardTransformers,
  standardTransformersRegistry,
  transformDataFrame,
} from '@grafana/data';
import { firstValueFrom } from 'rxjs';

// Some have a second, older name.
const transformers = new Map(Object.values(standardTransformers).map((one) => [one.id, one]));
standardTransformersRegistry.setInit(() =>
  [...transformers.values()].map((transformation) => ({
    id: transformation.id,
    name: transformation.name,
    transformation,
    editor: () => null,
  }))
);

/** Every property that a board sets: what is told for a field or all fields ends in its config. */
function registryFor({ defaults, overrides }) {
  const custom = Object.keys(defaults.custom ?? {}).map((name) => `custom.${name}`);
  const ids = new Set([
    ...Object.keys(defaults).filter((name) => name !== 'custom'),
    ...custom,
    ...overrides.flatMap(({ properties }) => properties.map(({ id }) => id)),
  ]);
  return new FieldConfigOptionsRegistry(() =>
    [...ids].map((id) => ({
      id,
      path: id.replace(/^custom\./, ''),
      name: id,
      isCustom: id.startsWith('custom.'),
      process: (value) => value,
      shouldApply: () => true,
      editor: () => null,
      override: () => null,
    }))
  );
}

/** Frames as the panel draws them. `custom` is what its plugin takes where the board is silent. */
export async function prepared(panel, frames, theme, custom = {}) {
  const { defaults = {}, overrides = [] } = panel.fieldConfig ?? {};
  const fieldConfig = {
    defaults: { ...defaults, custom: { ...custom, ...defaults.custom } },
    overrides,
  };
  const context = { interpolate: (text) => text };
  const transformed = await firstValueFrom(
    transformDataFrame(panel.transformations ?? [], frames, context)
  );
  return applyFieldOverrides({
    data: transformed,
    fieldConfig,
    fieldConfigRegistry: registryFor(fieldConfig),
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
  });
}
