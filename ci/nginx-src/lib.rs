//! Empty on purpose: this package exists for its dependency `nginx-src`, whose folder `nginx/` is the pinned source.
//! `ci/build-nginx` asks cargo where that folder is; nothing here is compiled or linked.
