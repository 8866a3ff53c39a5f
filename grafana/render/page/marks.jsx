// Annotations: a line from top to bottom and a flag below the axis, as Grafana has them.

/** Draws `marks` (times in seconds) into the graph that `builder` configures. */
export function drawMarks(builder, marks, theme) {
  builder.addHook('draw', (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    for (const mark of marks) {
      const color = theme.visualization.getColorByName(mark.color);
      const from = Math.max(bbox.left, plot.valToPos(mark.from * 1000, 'x', true));
      const to = plot.valToPos(mark.to * 1000, 'x', true);
      ctx.strokeStyle = ctx.fillStyle = color;
      ctx.lineWidth = 2;
      ctx.setLineDash([5, 5]);
      ctx.beginPath();
      ctx.moveTo(from, bbox.top);
      ctx.lineTo(from, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillRect(from - 3, bbox.top + bbox.height, Math.max(8, to - from), 5);
    }
    ctx.restore();
  });
}
