// What lib/support/Precompiled.h is to the libraries, for the tests.
#pragma once

#include "support/Precompiled.h"

#include "gtest/gtest.h"
