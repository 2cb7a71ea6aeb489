//! Live memory over time in a bounded number of points.
//!
//! The run's time is cut into equal spans. Of each span the least, the
//! greatest and the last level are kept, in the order of time: nothing that a
//! picture could show gets lost, and the greatest point of all is the exact
//! peak. Between two points the level of the earlier one holds.

use crate::{findings::TimelinePoint, ledger::Level};

/// Points of one span.
const POINTS_PER_SPAN: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Span {
    least: TimelinePoint,
    greatest: TimelinePoint,
    last: TimelinePoint,
}

/// Gathers the timeline while events are replayed.
#[derive(Debug)]
pub(crate) struct Timeline {
    max_points: usize,
    start_ns: u64,
    duration_ns: u64,
    span_ns: u64,
    /// Where the current span ends, ns after the start.
    span_end_ns: u64,
    span: Option<Span>,
    points: Vec<TimelinePoint>,
    greatest: TimelinePoint,
}

impl Timeline {
    /// For events from `start_ns` to `end_ns` (`CLOCK_MONOTONIC`).
    pub(crate) fn new(max_points: usize, start_ns: u64, end_ns: u64) -> Self {
        let spans = (max_points.saturating_sub(2) / POINTS_PER_SPAN).max(1) as u64;
        // One less than the greatest number, so that a span can end after it.
        let duration_ns = end_ns.saturating_sub(start_ns).min(u64::MAX - 1);
        let span_ns = (duration_ns / spans).saturating_add(1);
        Self {
            max_points,
            start_ns,
            duration_ns,
            span_ns,
            span_end_ns: span_ns,
            span: None,
            points: Vec::new(),
            greatest: TimelinePoint::default(),
        }
    }

    /// The level from `time_ns` on.
    pub(crate) fn record(&mut self, time_ns: u64, level: Level) {
        // A time outside the stated range would make more spans than promised.
        let time_ns = time_ns.saturating_sub(self.start_ns).min(self.duration_ns);
        let point = TimelinePoint {
            time_ns,
            live_bytes: level.live_bytes,
            live_blocks: level.live_blocks,
            allocations: level.allocations,
            allocated_bytes: level.allocated_bytes,
        };
        if time_ns >= self.span_end_ns {
            self.close();
            let passed = time_ns / self.span_ns;
            self.span_end_ns = self.span_ns.saturating_mul(passed.saturating_add(1));
        }
        match &mut self.span {
            None => {
                self.span = Some(Span {
                    least: point,
                    greatest: point,
                    last: point,
                });
            }
            Some(span) => {
                if point.live_bytes > span.greatest.live_bytes {
                    span.greatest = point;
                }
                if point.live_bytes < span.least.live_bytes {
                    span.least = point;
                }
                span.last = point;
            }
        }
    }

    fn close(&mut self) {
        let Some(span) = self.span.take() else {
            return;
        };
        if span.greatest.live_bytes > self.greatest.live_bytes {
            self.greatest = span.greatest;
        }
        let (first, second) = if span.least.allocations < span.greatest.allocations
            || span.least.time_ns < span.greatest.time_ns
        {
            (span.least, span.greatest)
        } else {
            (span.greatest, span.least)
        };
        for point in [first, second, span.last] {
            if self.points.last() != Some(&point) {
                self.points.push(point);
            }
        }
    }

    /// All points, from the start to the end, up to which the last level
    /// holds.
    pub(crate) fn finish(mut self) -> Vec<TimelinePoint> {
        self.close();
        let last = self.points.last().copied().unwrap_or_default();
        match self.max_points {
            0 => return Vec::new(),
            1 => return vec![self.greatest],
            // Too few for spans of three: the peak and the end.
            2..=4 => self.points = vec![self.greatest],
            _ => {}
        }
        if self.points.first().is_some_and(|point| point.time_ns > 0)
            && self.points.len() + 2 <= self.max_points
        {
            self.points.insert(0, TimelinePoint::default());
        }
        let end = TimelinePoint {
            time_ns: self.duration_ns.max(last.time_ns),
            ..last
        };
        if self.points.last() != Some(&end) {
            self.points.push(end);
        }
        self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_all_time_keeps_to_its_points() {
        // Guards against the end of the last span at the end of time: each
        // record there used to be a span of its own.
        let mut timeline = Timeline::new(5, 0, u64::MAX);
        for allocations in 0..100 {
            let level = Level {
                allocations,
                live_bytes: allocations % 3,
                ..Level::default()
            };
            timeline.record(u64::MAX, level);
        }
        assert!(timeline.finish().len() <= 5);
    }

    #[test]
    fn the_last_level_of_a_span_is_kept() {
        // Within a span: up to 9, down to 1, and 5 at its end, which holds
        // until the next event far away.
        let mut timeline = Timeline::new(8, 100, 1_100);
        for (time_ns, live_bytes) in [(110, 3), (120, 9), (130, 1), (140, 5), (1_050, 6)] {
            let level = Level {
                live_bytes,
                ..Level::default()
            };
            timeline.record(time_ns, level);
        }
        let points: Vec<_> = timeline
            .finish()
            .iter()
            .map(|point| (point.time_ns, point.live_bytes))
            .collect();
        assert_eq!(
            points,
            [(0, 0), (20, 9), (30, 1), (40, 5), (950, 6), (1_000, 6)]
        );
    }
}
