// Headers that are compiled once for the command line, as lib/support/Precompiled.h for libraries.
#pragma once

#include "support/Precompiled.h"

#include <CLI/CLI.hpp>
