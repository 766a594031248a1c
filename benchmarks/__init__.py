"""Side by side with peers. With this file, because Opacus installs a package `benchmarks` of its own."""
