// Panels of type table: Grafana's Table component.
import React from 'react';
import { Table } from '@grafana/ui';

export const TABLE_DEFAULTS = { align: 'auto', cellOptions: { type: 'auto' }, inspect: false };

export function Rows({ panel, frames, timeRange, width, height }) {
  return (
    <Table
      data={frames[0]}
      width={width}
      height={height}
      columnMinWidth={panel.fieldConfig.defaults.custom.minWidth}
      cellHeight={panel.options.cellHeight}
      initialSortBy={panel.options.sortBy ?? []}
      noHeader={false}
      resizable={false}
      timeRange={timeRange}
      fieldConfig={panel.fieldConfig}
      replaceVariables={(text) => text}
    />
  );
}
