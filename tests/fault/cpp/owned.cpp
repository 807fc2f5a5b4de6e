/* owned.cpp: tests/cpp/owned.cpp as a function of fault_cpp. */
#include "fault/cpp/cpp.h"

#define main owned_main
#include "../../cpp/owned.cpp"
