// Panels of type stat: Grafana's BigValue component.
import React from 'react';
import { getFieldDisplayValues } from '@grafana/data';
import { BigValue } from '@grafana/ui';

export function Stat({ panel, frames, theme, width, height }) {
  const values = getFieldDisplayValues({
    fieldConfig: panel.fieldConfig,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables: (text) => text,
    theme,
    data: frames,
    sparkline: panel.options.graphMode !== 'none',
    timeZone: 'utc',
  });
  const { display, sparkline } = values[0];
  return (
    <BigValue
      value={{ ...display, title: undefined }}
      sparkline={sparkline}
      count={1}
      colorMode={panel.options.colorMode}
      graphMode={panel.options.graphMode}
      justifyMode="auto"
      textMode="auto"
      width={width}
      height={height}
      theme={theme}
    />
  );
}
