//! One drawing a condition: for each remedy, second for second, what users got, and how long successes took at worst.
//! Called by `overload.rs`.

use super::condition::Condition;
use super::figures::Second;
use super::results::{Cell, Results};
use crate::error::Error;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (1260, 740);
/// Height of title and legend.
const HEAD: i32 = 56;
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
    has_points(cells.iter().map(|cell| (cell.remedy.title(), cell.seconds.len()))).map_err(&fault)?;
    let root = SVGBackend::new(&file, SIZE).into_drawing_area();
    let title = format!("{}: {}", condition.title(), condition.change());
    root.fill(&WHITE).map_err(|error| fault(error.to_string()))?;
    let (head, below) = root.split_vertically(HEAD);
    header(&title, &head).map_err(&fault)?;
    let areas = below.split_evenly((cells.len().div_ceil(COLUMNS), COLUMNS));
    let most = cells.iter().flat_map(|cell| &cell.seconds).map(busiest).fold(200.0, f64::max) * 1.05;
    for (cell, area) in cells.iter().zip(&areas) {
        panel(cell, most, area).map_err(&fault)?;
    }
    root.present().map_err(|error| fault(error.to_string()))
}

/// A panel without a second to show would be axes and a legend without a line.
fn has_points<'a>(panels: impl Iterator<Item = (&'a str, usize)>) -> Result<(), String> {
    let mut panels = panels.peekable();
    if panels.peek().is_none() {
        return Err("no remedy was run under this condition".into());
    }
    match panels.find(|(_, seconds)| *seconds == 0) {
        Some((title, _)) => Err(format!("the panel \"{title}\" has no point")),
        None => Ok(()),
    }
}

fn busiest(second: &Second) -> f64 {
    LINES.iter().map(|(_, _, value)| value(second)).fold(0.0, f64::max)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn panel(cell: &Cell, most: f64, area: &Area<'_>) -> Result<(), String> {
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
    for (_, color, value) in LINES {
        let points = steps(&cell.seconds, value);
        chart.draw_series(LineSeries::new(points, color.stroke_width(2))).map_err(|error| said(&error))?;
    }
    let points = p99(&cell.seconds);
    let dots = points.into_iter().map(|point| Circle::new(point, 2, P99_COLOR.filled()));
    chart.draw_secondary_series(dots).map_err(|error| said(&error))?;
    Ok(())
}

/// Title and legend, the same for every panel.
fn header(title: &str, area: &Area<'_>) -> Result<(), String> {
    let put = |element: Text<'_, (i32, i32), String>| area.draw(&element).map_err(|error| error.to_string());
    put(Text::new(title.to_owned(), (16, 6), (FONT, 22)))?;
    let mut x = 18;
    for (name, color, _) in LINES {
        let line = PathElement::new([(x, 44), (x + 22, 44)], color.stroke_width(3));
        area.draw(&line).map_err(|error| error.to_string())?;
        put(Text::new(format!("{name}, a second"), (x + 28, 37), (FONT, 14)))?;
        x += 130;
    }
    let dot = Circle::new((x + 11, 44), 3, P99_COLOR.filled());
    area.draw(&dot).map_err(|error| error.to_string())?;
    put(Text::new("99th percentile of the 200s, ms (right)".to_owned(), (x + 28, 37), (FONT, 14)))
}

fn steps(seconds: &[Second], value: fn(&Second) -> f64) -> Vec<(f64, f64)> {
    seconds.iter().enumerate().map(|(at, second)| (at as f64 + 0.5, value(second))).collect()
}

fn p99(seconds: &[Second]) -> Vec<(f64, f64)> {
    let at = |(at, second): (usize, &Second)| Some((at as f64 + 0.5, second.p99_ms?.min(P99)));
    seconds.iter().enumerate().filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panel_without_points_is_an_error_that_names_it() {
        let error = has_points([("guard", 25), ("max_conns=20", 0)].into_iter()).unwrap_err();
        assert_eq!(error, "the panel \"max_conns=20\" has no point");
        assert!(has_points(std::iter::empty()).is_err());
        assert_eq!(has_points([("guard", 1)].into_iter()), Ok(()));
    }
}
