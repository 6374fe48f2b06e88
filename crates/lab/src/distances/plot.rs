//! The drawing of docs/performance.md: three panels over the round trip, a line for each policy. Called by `distances.rs`.
//! A panel without a line is an error.

use super::cells::{Cell, Grid, POLICIES, ROUND_TRIPS_US};
use crate::error::Error;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (1260, 420);
/// Height of the legend.
const HEAD: i32 = 34;
const FONT: &str = "sans-serif";
/// A colour and a width for each policy: the earlier ones are wider, so that equal lines do not hide each other.
const STROKES: [(RGBColor, u32); 4] = [
    (RGBColor(230, 150, 90), 9),
    (RGBColor(120, 165, 220), 6),
    (RGBColor(160, 40, 30), 4),
    (RGBColor(20, 40, 110), 1),
];

/// What a panel shows.
struct Panel {
    title: &'static str,
    fleet: (u64, bool),
    value: fn(&Cell) -> f64,
}

const PANELS: [Panel; 3] = [
    Panel { title: "one server: questions per admission", fleet: (1, false), value: |cell| cell.questions },
    Panel {
        title: "one server: admissions without a verdict, %",
        fleet: (1, false),
        value: |cell| cell.failures * 100.0,
    },
    Panel {
        title: "3 servers, oldest dead: median wait, failures included, ms",
        fleet: (3, true),
        value: |cell| cell.p50_ms,
    },
];

/// Draws it.
///
/// # Errors
/// A line has no point, or the file cannot be written.
pub fn draw(grid: &Grid, file: &Path) -> Result<(), Error> {
    let fault = |reason: String| Error::Drawing(file.display().to_string(), reason);
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(|error| fault(error.to_string()))?;
    let (head, below) = root.split_vertically(HEAD);
    legend(&head).map_err(&fault)?;
    for (panel, area) in PANELS.iter().zip(below.split_evenly((1, PANELS.len()))) {
        draw_panel(panel, grid, &area).map_err(&fault)?;
    }
    root.present().map_err(|error| fault(error.to_string()))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn legend(area: &Area<'_>) -> Result<(), String> {
    let mut x = 20;
    for ((policy, _), (colour, width)) in POLICIES.iter().zip(STROKES) {
        let line = PathElement::new([(x, 18), (x + 30, 18)], colour.stroke_width(width));
        area.draw(&line).map_err(|error| error.to_string())?;
        let name = Text::new((*policy).to_owned(), (x + 38, 11), (FONT, 15));
        area.draw(&name).map_err(|error| error.to_string())?;
        x += 66 + 8 * policy.len() as i32;
    }
    Ok(())
}

fn draw_panel(panel: &Panel, grid: &Grid, area: &Area<'_>) -> Result<(), String> {
    let lines: Vec<Vec<(f64, f64)>> =
        POLICIES.iter().map(|(policy, _)| points(panel, grid, policy)).collect();
    let most = lines.iter().flatten().map(|(_, y)| *y).fold(0.0, f64::max);
    if lines.iter().any(Vec::is_empty) || !most.is_finite() {
        return Err(format!("the panel \"{}\" lacks a line", panel.title));
    }
    let (first, last) = (ROUND_TRIPS_US[0], ROUND_TRIPS_US[ROUND_TRIPS_US.len() - 1]);
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, (FONT, 17))
        .margin(8)
        .x_label_area_size(38)
        .y_label_area_size(44)
        .build_cartesian_2d(
            (first as f64 / 1_000.0 * 0.8..last as f64 / 1_000.0 * 1.25).log_scale(),
            -most * 0.03..(most * 1.1).max(0.1),
        )
        .map_err(|error| said(&error))?;
    let plain = |value: &f64| format!("{}", (value * 1_000.0).round() / 1_000.0);
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("round trip, ms")
        .x_label_formatter(&plain)
        .y_label_formatter(&plain)
        .draw()
        .map_err(|error| said(&error))?;
    for (points, (colour, width)) in lines.into_iter().zip(STROKES) {
        let series = LineSeries::new(points, colour.stroke_width(width)).point_size(width / 2 + 2);
        chart.draw_series(series).map_err(|error| said(&error))?;
    }
    Ok(())
}

fn points(panel: &Panel, grid: &Grid, policy: &str) -> Vec<(f64, f64)> {
    let cells = grid.line(policy, panel.fleet, 0.0);
    cells.iter().map(|cell| (cell.setting.round_trip_us as f64 / 1_000.0, (panel.value)(cell))).collect()
}
