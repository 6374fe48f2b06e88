//! The charts of docs/performance.md, drawn from files of results: latency that each way of asking adds against load, and
//! processor time of a request against requests in flight.

use crate::conditions::BARE;
use crate::results::{COMPARED, RATES, Results};
use crate::{Chart, Error, scale};
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use std::fs;
use std::path::Path;

const SIZE: (u32, u32) = (720, 420);
const COLOURS: [RGBColor; 4] =
    [RGBColor(200, 80, 40), RGBColor(120, 90, 170), RGBColor(20, 120, 160), RGBColor(40, 140, 60)];

/// A line of a chart: its name and its points.
type Line = (String, Vec<(f64, f64)>);

/// Draws both.
pub fn draw(arguments: &Chart) -> Result<(), Error> {
    fs::create_dir_all(&arguments.out)?;
    added_latency(&Results::read(&arguments.nginx)?, &arguments.out.join("added-p99.svg"))?;
    let sizes = scale::Results::read(&arguments.scale)?;
    cpu_in_flight(&sizes, &arguments.out.join("cpu-in-flight.svg"))
}

fn added_latency(results: &Results, file: &Path) -> Result<(), Error> {
    let bare = results.row(BARE).ok_or("no bare location in the results")?;
    let lines: Vec<Line> = COMPARED
        .iter()
        .filter_map(|letter| results.row(letter))
        .filter(|row| row.letter != BARE)
        .map(|row| {
            let added = |rate: &u32| {
                let metric = format!("p99 at {rate}");
                (f64::from(*rate), row.median(&metric) - bare.median(&metric))
            };
            let points = RATES.iter().map(added).filter(|(_, ms)| !ms.is_nan()).collect();
            (format!("{}: {}", row.letter, row.title.replace('`', "")), points)
        })
        .collect();
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (right, top, bottom) = bounds(&lines);
    let chart = ChartBuilder::on(&root)
        .caption("p99 added to a request, ms", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..right * 1.05, bottom.min(0.0)..top * 1.15)?;
    finish(chart, &lines, "requests a second")?;
    Ok(root.present()?)
}

fn cpu_in_flight(results: &scale::Results, file: &Path) -> Result<(), Error> {
    // Seconds per 10,000 requests times 100 are microseconds a request.
    let points = |of: fn(&scale::Size) -> f64| -> Vec<(f64, f64)> {
        results.sizes.iter().map(|size| (size.in_flight as f64, of(size) * 100.0)).collect()
    };
    let lines = [
        ("with the module".to_owned(), points(|size| size.cpu.median())),
        ("bare, as many connections".to_owned(), points(|size| size.bare_cpu.median())),
    ];
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (right, top, _) = bounds(&lines);
    let chart = ChartBuilder::on(&root)
        .caption("worker's processor time of a request, µs", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d((8.0..right * 1.3).log_scale(), 0.0..top * 1.3)?;
    finish(chart, &lines, "requests in flight")?;
    Ok(root.present()?)
}

/// The greatest abscissa, the greatest and the least ordinate.
fn bounds(lines: &[Line]) -> (f64, f64, f64) {
    let points = lines.iter().flat_map(|(_, points)| points);
    points.fold((0.0, 0.0, f64::INFINITY), |(right, top, bottom): (f64, f64, f64), (x, y)| {
        (right.max(*x), top.max(*y), bottom.min(*y))
    })
}

/// Axes, lines and legend.
fn finish<'a, X>(
    mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, plotters::coord::types::RangedCoordf64>>,
    lines: &[Line],
    abscissa: &str,
) -> Result<(), Error>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart.configure_mesh().x_desc(abscissa).light_line_style(WHITE).draw()?;
    for ((name, points), colour) in lines.iter().zip(COLOURS) {
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}
