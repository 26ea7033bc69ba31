// What lib/support/Precompiled.h is to the libraries, for the command line.
#pragma once

#include "support/Precompiled.h"

#include <CLI/CLI.hpp>
