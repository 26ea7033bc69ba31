// Headers that are compiled once for the tests, as lib/support/Precompiled.h for the libraries.
#pragma once

#include "support/Precompiled.h"

#include "gtest/gtest.h"
