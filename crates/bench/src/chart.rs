//! The chart of docs/performance.md: processor time of a request against requests in flight, drawn from the results of
//! `scale`. A line without points is an error: the file that was drawn before stays.

use crate::{Chart, Error, scale};
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use std::fs;
use std::path::Path;

const SIZE: (u32, u32) = (720, 420);
const COLOURS: [RGBColor; 2] = [RGBColor(200, 80, 40), RGBColor(120, 90, 170)];

/// A line of a chart: its name and its points.
type Line = (String, Vec<(f64, f64)>);

/// Draws it.
pub fn draw(arguments: &Chart) -> Result<(), Error> {
    fs::create_dir_all(&arguments.out)?;
    let results = scale::Results::read(&arguments.scale)?;
    cpu_in_flight(&results.sizes, &arguments.out.join("cpu-in-flight.svg"))
}

fn cpu_in_flight(sizes: &[scale::Size], file: &Path) -> Result<(), Error> {
    // Seconds per 10,000 requests times 100 are microseconds a request.
    let points = |of: fn(&scale::Size) -> f64| -> Vec<(f64, f64)> {
        sizes.iter().map(|size| (size.in_flight as f64, of(size) * 100.0)).collect()
    };
    let lines = [
        ("with the module".to_owned(), points(|size| size.cpu.median())),
        ("bare, as many connections".to_owned(), points(|size| size.bare_cpu.median())),
    ];
    let (right, top) = bounds(&lines)?;
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let chart = ChartBuilder::on(&root)
        .caption("worker's processor time of a request, µs", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d((8.0..right * 1.3).log_scale(), 0.0..top * 1.3)?;
    finish(chart, &lines, "requests in flight")?;
    Ok(root.present()?)
}

/// The greatest abscissa and the greatest ordinate. A line that has nothing to show must not become a legend without a line.
fn bounds(lines: &[Line]) -> Result<(f64, f64), Error> {
    for (name, points) in lines {
        if !points.iter().any(|(x, y)| x.is_finite() && y.is_finite()) {
            return Err(format!("the line \"{name}\" has no point: the results lack its figures").into());
        }
    }
    let points = lines.iter().flat_map(|(_, points)| points);
    Ok(points.fold((0.0, 0.0), |(right, top): (f64, f64), (x, y)| (right.max(*x), top.max(*y))))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_points_is_an_error_that_names_it() {
        let drawn = ("bare".to_owned(), vec![(10.0, 1.0)]);
        for points in [vec![], vec![(10.0, f64::NAN)]] {
            let error = bounds(&[drawn.clone(), ("added".to_owned(), points)]).unwrap_err();
            assert!(error.to_string().contains("\"added\" has no point"), "{error}");
        }
        assert_eq!(bounds(&[drawn]).unwrap(), (10.0, 1.0));
    }

    #[test]
    fn results_that_were_counted_only_leave_the_old_chart_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cpu-in-flight.svg");
        fs::write(&file, "as it was").unwrap();
        let counted = scale::Size { in_flight: 10, instructions: Some(6000.0), ..scale::Size::default() };
        let error = cpu_in_flight(&[counted], &file).unwrap_err();
        assert!(error.to_string().contains("has no point"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "as it was");
    }
}
