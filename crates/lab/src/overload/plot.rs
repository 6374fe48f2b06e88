//! One drawing a condition: for each remedy, second for second, what users got, and how long successes took at worst.
//! Called by `overload.rs`.

use super::condition::Condition;
use super::figures::Second;
use super::results::{Cell, Results};
use crate::error::Error;
use plotters::chart::SeriesLabelPosition;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (1260, 720);
const COLUMNS: usize = 3;
const FONT: &str = "sans-serif";
/// The right axis, milliseconds: a little more than nginx's timeout.
const P99: f64 = 1100.0;

type Line = (&'static str, RGBColor, fn(&Second) -> f64);
const LINES: [Line; 4] = [
    ("200", RGBColor(31, 119, 60), |second| second.success),
    ("429", RGBColor(214, 140, 20), |second| second.refused_429),
    ("502", RGBColor(120, 70, 160), |second| second.failed_502),
    ("504", RGBColor(200, 30, 40), |second| second.failed_504),
];
const P99_COLOR: RGBColor = RGBColor(60, 110, 190);

/// Draws a condition to `<slug>.svg` in the folder.
///
/// # Errors
/// The drawing fails or cannot be written.
pub fn draw(results: &Results, condition: Condition, folder: &Path) -> Result<(), Error> {
    let file = folder.join(format!("{}.svg", condition.slug()));
    let cells: Vec<&Cell> = results.cells.iter().filter(|cell| cell.condition == condition).collect();
    let fault = |reason: String| Error::Drawing(file.display().to_string(), reason);
    let root = SVGBackend::new(&file, SIZE).into_drawing_area();
    let title = format!("{}: {}", condition.title(), condition.change());
    root.fill(&WHITE).map_err(|error| fault(error.to_string()))?;
    let below = root.titled(&title, (FONT, 22)).map_err(|error| fault(error.to_string()))?;
    let areas = below.split_evenly((cells.len().div_ceil(COLUMNS), COLUMNS));
    let most = cells.iter().flat_map(|cell| &cell.seconds).map(busiest).fold(200.0, f64::max) * 1.05;
    for (cell, area) in cells.iter().zip(&areas) {
        panel(cell, most, area).map_err(&fault)?;
    }
    root.present().map_err(|error| fault(error.to_string()))
}

fn busiest(second: &Second) -> f64 {
    LINES.iter().map(|(_, _, value)| value(second)).fold(0.0, f64::max)
}

fn panel<'a>(
    cell: &Cell,
    most: f64,
    area: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
) -> Result<(), String> {
    let end = cell.seconds.len() as f64;
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let mut chart = ChartBuilder::on(area)
        .caption(cell.remedy.title(), (FONT, 16))
        .margin(6)
        .x_label_area_size(28)
        .y_label_area_size(38)
        .right_y_label_area_size(44)
        .build_cartesian_2d(0.0..end, 0.0..most)
        .map_err(|error| said(&error))?
        .set_secondary_coord(0.0..end, 0.0..P99);
    let whole = |value: &f64| format!("{value:.0}");
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&whole)
        .y_label_formatter(&whole)
        .x_desc("second")
        .draw()
        .map_err(|error| said(&error))?;
    chart
        .configure_secondary_axes()
        .y_desc("p99, ms")
        .y_label_formatter(&whole)
        .draw()
        .map_err(|error| said(&error))?;
    for (name, color, value) in LINES {
        let points = steps(&cell.seconds, value);
        let drawn = chart.draw_series(LineSeries::new(points, color.stroke_width(2)));
        let drawn = drawn.map_err(|error| said(&error))?;
        drawn
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], color.stroke_width(2)));
    }
    let points = p99(&cell.seconds);
    let dots = points.into_iter().map(|point| Circle::new(point, 2, P99_COLOR.filled()));
    let drawn = chart.draw_secondary_series(dots).map_err(|error| said(&error))?;
    drawn.label("p99 (right)").legend(|(x, y)| Circle::new((x + 7, y), 2, P99_COLOR.filled()));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font((FONT, 11))
        .draw()
        .map_err(|error| said(&error))
}

fn steps(seconds: &[Second], value: fn(&Second) -> f64) -> Vec<(f64, f64)> {
    seconds.iter().enumerate().map(|(at, second)| (at as f64 + 0.5, value(second))).collect()
}

fn p99(seconds: &[Second]) -> Vec<(f64, f64)> {
    let at = |(at, second): (usize, &Second)| Some((at as f64 + 0.5, second.p99_ms?.min(P99)));
    seconds.iter().enumerate().filter_map(at).collect()
}
