//! Admissions through nginx's phases: what is asked, when, and what nginx makes of the verdict.
